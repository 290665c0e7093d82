"""A configuration as users edit it: a flat dict under a name, and the `RunConfig` that it stands for."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import reduce
from typing import Any

import yaml

from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from components.session.checkpoint_loading import model_settings
from components.text.suggestions import suggest
from flows.api.petting.configs import config_values, without
from flows.presets import with_overrides

NAMING = ("config_name", "env_name", "base_model")
"""The keys that decide the defaults of all others."""
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "num_iterations": ("num_steps",),
    "seed": ("seed",),
    "env_options": ("environment.options",),
    "max_turns": ("environment.max_turns",),
    "batch_size": ("rollout.num_problems",),
    "train_sample_num": ("rollout.group_size",),
    "rollout_mode": ("rollout.mode",),
    "advantage": ("algorithm.advantage",),
    "norm_adv_by_std": ("algorithm.normalize_std",),
    "alpha": ("rewards.team_weight",),
    "temperature": ("rollout.temperature",),
    "max_response_length": ("agents.*.max_new_tokens",),
    "learning_rate": ("training.learning_rate", "policies.*.learning_rate"),
    "lr_scheduler": ("training.lr_schedule",),
    "lr_warmup_steps": ("training.num_warmup_updates",),
    "weight_decay": ("training.weight_decay",),
    "grad_clip": ("training.max_grad_norm",),
    "ppo_epochs": ("training.num_epochs",),
    "num_mini_batches": ("training.num_minibatches",),
    "clip_ratio_low": ("loss.clip_low",),
    "clip_ratio_high": ("loss.clip_high",),
    "entropy_coeff": ("loss.entropy_coefficient",),
    "kl_loss_coef": ("loss.kl_coefficient",),
    "lora_rank": ("policies.*.adapter.rank",),
    "lora_alpha": ("policies.*.adapter.alpha",),
    "val_freq": ("evaluation.every",),
    "val_episodes": ("evaluation.num_problems",),
    "engine": ("generation.engine",),
    "device": ("generation.device", "training.device"),
    "dtype": ("generation.dtype", "training.dtype"),
}
"""Key -> the fields that it sets, where `*` is every policy or agent. The last one that is set tells its value."""
OVERRIDES = "overrides"
"""The key for every field without a key of its own: a list of `a.b=c`, as for `troupe train --set`."""
KEYS = (*NAMING, *SETTINGS, OVERRIDES)
_BASE = ("policies.*.base",)


def get_config(config_name: str, **settings: Any) -> dict[str, Any]:
    """The configuration under a name, to be edited and passed to `train`, `evaluate` or an environment.

    `settings` are keys with other values; `env_name` and `base_model` among them give defaults that fit them. Raises
    ConfigurationError for an unknown name or key, with the nearest one.

    **Example**

    >>> config = get_config("code_single_policy", learning_rate=1e-5)
    >>> config["learning_rate"], config["batch_size"], config["env_name"]
    (1e-05, 16, 'code')
    """
    given = check_keys({"config_name": config_name, **settings})
    defaults = parse_config(_values(given)).model_dump(mode="json")
    read = {key: _read(places, defaults) for key, places in SETTINGS.items()}
    named = {
        "config_name": config_name,
        "env_name": defaults["environment"]["name"],
        "base_model": _read(_BASE, defaults),
    }
    return {**named, **read, OVERRIDES: [], **deepcopy(given)}


def training_keys(config_name: str = "games_single_policy", **settings: Any) -> dict[str, Any]:
    """The training keys of a configuration, for `train(..., **training_keys())`. Raises ConfigurationError."""
    whole, sections = get_config(config_name, **settings), ("rollout.", "algorithm.", "loss.", "training.")
    return {key: whole[key] for key, places in SETTINGS.items() if places[0].startswith(sections)}


def stated_config(
    config_name: str | Mapping[str, Any] | None, config: Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What a caller says: the name of a configuration or its edited dict, and single keys on top.

    Raises ConfigurationError if neither is given, or if both are and name different ones.
    """
    if isinstance(config_name, Mapping):
        if config is not None:
            raise ConfigurationError("config_name is a configuration, and so is config: leave one of them out")
        config_name, config = None, config_name
    stated = dict(config or {})
    name = stated.setdefault("config_name", config_name)
    if name is None:
        raise ConfigurationError(
            "config_name: name a configuration, as code_single_policy, or pass one of get_config()"
        )
    if config_name not in (None, name):
        raise ConfigurationError(f"config_name {config_name!r}: the configuration is {name!r}; leave config_name out")
    return check_keys({**stated, **settings})


def run_config(config: Mapping[str, Any]) -> RunConfig:
    """The `RunConfig` of a configuration. A key that is left out, or as `get_config` gives it, has its default.

    Raises ConfigurationError, which names the key, its field, the value and the remedy.
    """
    values = _values(check_keys(config))
    defaults = parse_config(values).model_dump(mode="json")
    given = {key: places for key, places in SETTINGS.items() if key in config}
    changed = [key for key, places in given.items() if config[key] != _read(places, defaults)]
    lines = [line for key in changed for line in overrides_for(key, SETTINGS[key], config[key], values)]
    try:
        return parse_config(with_overrides(values, [*lines, *(config.get(OVERRIDES) or ())]))
    except ConfigurationError as error:
        named = dict.fromkeys(_line_by_key(line, changed) for line in str(error).splitlines())
        raise ConfigurationError("\n".join(named)) from error


def overrides_for(key: str, places: Sequence[str], value: Any, values: Mapping[str, Any]) -> list[str]:
    """`a.b=c`, as for `--set`, for each field that `key` sets at these places of plain values: a value for all, or by name.

    **Example** `agents.*.max_new_tokens` at {"coder": 9}: ["agents.coder.max_new_tokens=9"].
    """
    is_by_name, lines = isinstance(value, Mapping) and any("*" in place for place in places), []
    for place in places:
        paths = _paths(place, values)
        for name, each in value.items() if is_by_name and None not in paths else ():
            if name not in paths:
                known = suggest(str(name), map(str, paths))
                raise ConfigurationError(f"config[{key!r}]: {name!r} is none of them; {known}")
            lines.append(f"{'.'.join(paths[name])}={_yaml(key, each)}")
        lines += [] if is_by_name else [f"{'.'.join(path)}={_yaml(key, value)}" for path in paths.values()]
    return lines


def check_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` as a dict. Raises ConfigurationError for an unknown key, with the nearest one."""
    for key in config:
        if key not in KEYS:
            raise ConfigurationError(f"config[{key!r}]: unknown key; {suggest(str(key), KEYS)}")
    return dict(config)


def _yaml(key: str, value: Any) -> str:
    """The value in one line; json writes 1e-05, which YAML takes for text. Raises ConfigurationError for an object."""
    try:
        return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()
    except yaml.YAMLError as error:
        raise ConfigurationError(f"config[{key!r}]: {value!r} is no number, text, list or dict; convert it") from error


def _paths(place: str, values: Mapping[str, Any]) -> dict[str | None, tuple[str, ...]]:
    """The path of a place by the policy or agent for which `*` stands; by None where it has no `*`."""
    section, star, rest = place.partition(".*.")
    if not star:
        return {None: tuple(place.split("."))}
    return {name: (section, name, *rest.split(".")) for name in values[section]}


def _read(places: Sequence[str], values: Mapping[str, Any]) -> Any:
    """The value at the last of the places that is set; by policy or agent where these differ."""

    def inner(section: Any, part: str) -> Any:
        return section.get(part) if isinstance(section, Mapping) else None

    found = [{name: reduce(inner, path, values) for name, path in _paths(place, values).items()} for place in places]
    is_set = [each for each in found if any(value is not None for value in each.values())]
    first, *others = is_set[-1].values() if is_set else (None,)
    return first if all(other == first for other in others) else is_set[-1]


def _values(config: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of the named configuration with its environment and base model."""
    values = config_values(str(config.get("config_name")), config.get("env_name"))
    base = config.get("base_model")
    if base in (None, _read(_BASE, parse_config(values).model_dump(mode="json"))):
        return values
    values = with_overrides(values, overrides_for("base_model", _BASE, base, values))
    for policy in values["policies"].values():
        # Models that were built here, also exported ones, have no chat template.
        reads_chats = policy["base"] != "tiny" and model_settings(policy["base"]).prompt_format == "chat"
        policy["prompt_format"] = "chat" if reads_chats else "compact"
    if any(policy["prompt_format"] == "compact" for policy in values["policies"].values()):
        return values
    # Without what the preset sets for a small model that is cloned from demonstrations.
    agents = {role: without(agent, "max_new_tokens") for role, agent in values["agents"].items()}
    policies = {name: without(policy, "tiny", "learning_rate") for name, policy in values["policies"].items()}
    training = without(values.get("training", {}), "learning_rate")
    return {**without(values, "warm_start"), "training": training, "agents": agents, "policies": policies}


def _line_by_key(line: str, changed: Sequence[str]) -> str:
    """A line of an error with the key that set its field in place of the field, if one did."""
    field, separator, fault = line.partition(": ")
    places = [(key, place.replace("*", "[^.]+")) for key in changed for place in SETTINGS[key]]
    key = next((key for key, pattern in places if separator and re.fullmatch(pattern, field)), None)
    return line if key is None else f"config[{key!r}]: {fault}"
