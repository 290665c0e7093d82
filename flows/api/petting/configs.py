"""Configurations by name, a domain's preset at a level of specialisation, as users edit them: a flat dict of keys."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import reduce
from typing import Any

import yaml

from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from components.session.checkpoint_loading import model_settings
from components.text.plain_yaml import write_yaml_line
from components.text.suggestions import suggest
from flows.presets import all_preset_values, find_named_values, with_overrides

_ADAPTED = "plan-path-l2"
"""The preset whose adapter, and its learning rate, level l2 has."""


def specialise(values: Mapping[str, Any], level: str) -> dict[str, Any]:
    """A preset's plain values, all of whose roles have one policy, at the level l0 to l3. Raises ConfigurationError.

    l0 is one agent, the last of those that the preset names in the order of a turn; l1 one policy for all roles; l2 an adapter
    per role on one base; l3 a model per role.

    **Example** l3 of {tester: {policy: team}, coder: {policy: team}}: {tester: {policy: tester}, coder: {policy: coder}}, each
    of the two policies as team was.
    """
    agents: dict[str, Any] = values["agents"]
    if len(values["policies"]) != 1:
        raise ConfigurationError(
            f"preset {values.get('preset')}: its policies are {sorted(values['policies'])}; the configurations of a domain "
            "are made of a preset with one policy for all roles"
        )
    if level == "l0":
        kept = {name: value for name, value in values["rollout"].items() if name != "random_handoff_probability"}
        last = dict([*agents.items()][-1:])
        return {**values, "rollout": {**kept, "mode": "single"}, "algorithm": {"advantage": "grpo"}, "agents": last}
    if level == "l1":
        return dict(values)
    adapted = next(iter(all_preset_values()[_ADAPTED]["policies"].values())) if level == "l2" else {}
    own = {key: adapted[key] for key in ("adapter", "learning_rate") if key in adapted}
    (policy,) = values["policies"].values()
    return {
        **values,
        "agents": {role: {**agent, "policy": role} for role, agent in agents.items()},
        "policies": {role: deepcopy({**policy, **own}) for role in agents},
    }


_BOARDS = {"plan_path": "plan-path", "sokoban": "sokoban", "sudoku": "sudoku"}
_PUZZLES = {"blocksworld": "stateful-blocksworld", "eight_queens": "stateful-eight-queens"}
_WORLDS = {"shop": "stateful-shop", "calendar": "stateful-calendar", "file_tree": "stateful-file-tree"}
DOMAINS: Mapping[str, Mapping[str, str]] = {
    **{domain: {domain: f"{domain}-tiny"} for domain in ("code", "math", "search")},
    "stateful": {**_PUZZLES, **_WORLDS, **_BOARDS},
    "games": {**_BOARDS, **_PUZZLES},
}
"""Domain -> its environments, the default first -> the preset in which the environment is trained, of the current folder's
`prefect.yaml` before Troupe's own."""
LEVELS: Mapping[str, str] = {
    "_single_policy": "l1",
    "_two_policy": "l3",
    **{f"-{level}": level for level in ("l0", "l1", "l2", "l3")},
}
"""The end of a name -> the level of specialisation: l0 one agent; l1 one policy for all roles; l2 an adapter per role on one
base; l3 a model per role."""
_NAME = re.compile(rf"({'|'.join(DOMAINS)})({'|'.join(map(re.escape, LEVELS))})")
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
    "alpha": ("rewards.team_weight",),
    "temperature": ("rollout.temperature",),
    "max_response_length": ("agents.*.max_new_tokens",),
    "learning_rate": ("training.learning_rate", "policies.*.learning_rate"),
    "ppo_epochs": ("training.num_epochs",),
    "val_freq": ("evaluation.every",),
    "val_episodes": ("evaluation.num_problems",),
    "engine": ("generation.engine",),
    "device": ("generation.device", "training.device"),
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
    named = {"env_name": defaults["environment"]["name"], "base_model": _read(_BASE, defaults)}
    read = {key: _read(places, defaults) for key, places in SETTINGS.items()}
    return {"config_name": config_name, **named, **read, OVERRIDES: [], **deepcopy(given)}


def training_keys(config_name: str = "games_single_policy", **settings: Any) -> dict[str, Any]:
    """The training keys of a configuration, for `train(..., **training_keys())`. Raises ConfigurationError."""
    whole, sections = get_config(config_name, **settings), ("rollout.", "algorithm.", "training.")
    return {key: whole[key] for key, places in SETTINGS.items() if places[0].startswith(sections)}


def merge_config(config: str | Mapping[str, Any] | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller says: a configuration's name or its edited dict, and single keys on top. Raises ConfigurationError."""
    stated = dict(config) if isinstance(config, Mapping) else {"config_name": config}
    if stated.get("config_name") is None:
        raise ConfigurationError(
            "config_name: name a configuration, as code_single_policy, or pass one of get_config()"
        )
    return check_keys({**stated, **settings})


def run_config(config: Mapping[str, Any]) -> RunConfig:
    """The `RunConfig` of a configuration. A key that is left out, or as `get_config` gives it, has its default.

    Raises ConfigurationError, which names the key, its field, the value and the remedy.
    """
    values = _values(check_keys(config))
    defaults = parse_config(values).model_dump(mode="json")
    changed = [key for key, places in SETTINGS.items() if key in config and config[key] != _read(places, defaults)]
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
    paths = {path: name for place in places for path, name in _expand(place, values).items()}
    if not isinstance(value, Mapping) or set(paths.values()) == {None}:
        return [f"{path}={_yaml(key, value)}" for path in paths]
    for name in value:
        if name not in paths.values():
            remedy = suggest(str(name), [each for each in paths.values() if each])
            raise ConfigurationError(f"config[{key!r}]: {name!r} is none of them; {remedy}")
    return [f"{path}={_yaml(key, value[name])}" for path, name in paths.items() if name in value]


def check_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` as a dict. Raises ConfigurationError for an unknown key, with the nearest one."""
    for key in config:
        if key not in KEYS:
            raise ConfigurationError(f"config[{key!r}]: unknown key; {suggest(str(key), KEYS)}")
    return dict(config)


def _yaml(key: str, value: Any) -> str:
    """The value in one line. Raises ConfigurationError for an object."""
    try:
        return write_yaml_line(value)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"config[{key!r}]: {value!r} is no number, text, list or dict; convert it") from error


def _expand(place: str, values: Mapping[str, Any]) -> dict[str, str | None]:
    """The paths of a place, each with the policy or agent for which `*` stands, with None where it has no `*`."""
    section, star, rest = place.partition(".*.")
    return {f"{section}.{name}.{rest}": name for name in values[section]} if star else {place: None}


def _read(places: Sequence[str], values: Any) -> Any:
    """The value at the last of the places that is set; by policy or agent where these differ."""
    for place in reversed(places):
        found = {
            name: reduce(lambda section, part: section.get(part), path.split("."), values)
            for path, name in _expand(place, values).items()
        }
        first, *others = found.values()
        if any(value is not None for value in found.values()):
            return first if all(other == first for other in others) else found
    return None


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


def config_names() -> list[str]:
    """The names of all configurations made here. Those of presets and files are names, too."""
    return [f"{domain}{end}" for domain in DOMAINS for end in LEVELS]


def config_values(name: str, env_name: str | None = None) -> dict[str, Any]:
    """The plain values of a `RunConfig` under a name: a configuration's, a preset's or a file's.

    `env_name` chooses among the environments of the domain. Raises ConfigurationError with the nearest name.

    **Example** `code_two_policy` is the preset code-tiny with a model each for tester and coder.
    """
    made = _NAME.fullmatch(name)
    if made is None:
        # A copy in which YAML aliases are sections of their own.
        values = with_overrides(find_named_values(name, others=config_names()), ())
        own = values.get("environment", {}).get("name")
        if env_name not in (None, own):
            raise ConfigurationError(
                f"config['env_name'] {env_name!r}: {name} is of {own}; name the configuration of a domain, as "
                "stateful_single_policy"
            )
        return values
    environments = DOMAINS[made[1]]
    chosen = next(iter(environments)) if env_name is None else env_name
    if chosen not in environments:
        raise ConfigurationError(f"config['env_name'] {chosen!r}: not in {made[1]}; {suggest(chosen, environments)}")
    values = with_overrides(all_preset_values()[environments[chosen]], ())
    return {**specialise(values, LEVELS[made[2]]), "preset": name}


def without(section: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The section without these keys."""
    return {key: value for key, value in section.items() if key not in keys}
