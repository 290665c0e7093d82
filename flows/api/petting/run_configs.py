"""A configuration as users edit it: a flat dict under a name, and the `RunConfig` that it stands for."""

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from components.config import RunConfig, StoreConfig, TrackingConfig, parse_config
from components.errors import ConfigurationError
from components.session.checkpoint_loading import model_settings
from components.suggestions import suggest
from flows.api.petting.configs import config_values
from flows.api.petting.settings import SETTINGS, Setting
from flows.presets import with_overrides

BASE_MODEL = Setting(places=("policies.*.base",), meaning="The initial weights: tiny, a model folder or a hub name.")
NAMING: Mapping[str, str] = {
    "config_name": "A configuration, a preset or a file.",
    "env_name": "One of the domain's environments.",
    "base_model": BASE_MODEL.meaning,
}
"""The keys that decide the defaults of all others."""
OVERRIDES = "overrides"
"""The key for every field without a key of its own: a list of `a.b=c`, as for `troupe train --set`."""
KEYS = (*NAMING, *SETTINGS, OVERRIDES)
TINY = "tiny"


def get_config(config_name: str, **settings: Any) -> dict[str, Any]:
    """The configuration under a name, to be edited and passed to `train`, `evaluate` or an environment.

    `settings` are keys with other values; `env_name` and `base_model` among them give defaults that fit them. Raises
    ConfigurationError for an unknown name or key, with the nearest one.

    **Example**

    >>> config = get_config("code_single_policy", learning_rate=1e-5)
    >>> config["learning_rate"], config["batch_size"], config["env_name"]
    (1e-05, 16, 'code')
    """
    given = checked_keys({"config_name": config_name, **settings})
    defaults = parse_config(_defaults(given)).model_dump(mode="json")
    named = {"config_name": config_name, "env_name": defaults["environment"]["name"]}
    read = {key: setting.read(defaults) for key, setting in SETTINGS.items()}
    return {**named, "base_model": BASE_MODEL.read(defaults), **read, OVERRIDES: [], **deepcopy(given)}


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
    if config_name is not None and stated.setdefault("config_name", config_name) != config_name:
        raise ConfigurationError(
            f"config_name {config_name!r}: the configuration is {stated['config_name']!r}; leave config_name out"
        )
    if "config_name" not in stated:
        raise ConfigurationError(
            "config_name: name a configuration, as code_single_policy, or pass one of get_config()"
        )
    return checked_keys({**stated, **settings})


def run_config(config: Mapping[str, Any]) -> RunConfig:
    """The `RunConfig` of a configuration. A key that is left out, or as `get_config` gives it, has its default.

    Raises ConfigurationError, which names the key, its field, the value and the remedy.
    """
    values = _defaults(checked_keys(config))
    defaults = parse_config(values).model_dump(mode="json")
    given = {key: config[key] for key in SETTINGS if key in config}
    changed = {key: value for key, value in given.items() if value != SETTINGS[key].read(defaults)}
    for key, value in changed.items():
        SETTINGS[key].write(key, deepcopy(value), values)
    try:
        return parse_config(with_overrides(values, config.get(OVERRIDES) or ()))
    except ConfigurationError as error:
        lines = dict.fromkeys(_by_key(line, changed) for line in str(error).splitlines())
        raise ConfigurationError("\n".join(lines)) from error


def in_folder(config: RunConfig, checkpoint_dir: str | Path | None, *, is_tracked: bool) -> RunConfig:
    """`config` with all that its run stores in the folder (None: its own store), and with or without reports to MLflow."""
    tracking = config.tracking if is_tracked else TrackingConfig(kind="none")
    if checkpoint_dir is None:
        return config.model_copy(update={"tracking": tracking})
    store = config.store.moved_to(StoreConfig(kind="local", root=str(Path(checkpoint_dir).expanduser().absolute())))
    return config.model_copy(update={"store": store, "tracking": tracking})


def checked_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` as a dict. Raises ConfigurationError for an unknown key, with the nearest one."""
    for key in config:
        if key not in KEYS:
            raise ConfigurationError(f"config[{key!r}]: unknown key; {suggest(str(key), KEYS)}")
    return dict(config)


def _defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of the named configuration with its environment and base model."""
    values = config_values(str(config.get("config_name")), config.get("env_name"))
    base = config.get("base_model")
    if base in (None, BASE_MODEL.read(parse_config(values).model_dump(mode="json"))):
        return values
    BASE_MODEL.write("base_model", base, values)
    for policy in values["policies"].values():
        policy["prompt_format"] = "chat" if _reads_chats(policy["base"]) else "compact"
    are_pretrained = all(policy["prompt_format"] == "chat" for policy in values["policies"].values())
    return _for_pretrained(values) if are_pretrained else values


def _reads_chats(base: str) -> bool:
    """Whether a base has a chat template. Models that were built here, also exported ones, have none."""
    return base != TINY and model_settings(base).prompt_format == "chat"


def _for_pretrained(values: dict[str, Any]) -> dict[str, Any]:
    """Without what a preset sets for a small model that is cloned from demonstrations."""
    cloned = {"warm_start"}
    training = {key: each for key, each in values.get("training", {}).items() if key != "learning_rate"}
    agents = {
        role: {key: each for key, each in agent.items() if key != "max_new_tokens"}
        for role, agent in values["agents"].items()
    }
    policies = {
        name: {key: each for key, each in policy.items() if key not in ("tiny", "learning_rate")}
        for name, policy in values["policies"].items()
    }
    kept = {key: each for key, each in values.items() if key not in cloned}
    return {**kept, "training": training, "agents": agents, "policies": policies}


def _by_key(line: str, changed: Mapping[str, Any]) -> str:
    """A line of an error with the key that set its field in place of the field, if one did."""
    field, separator, fault = line.partition(": ")
    for key in changed:
        for place in SETTINGS[key].places:
            head, _, tail = place.partition("*")
            if separator and (field == place or (tail and field.startswith(head) and field.endswith(tail))):
                return f"config[{key!r}]: {fault}"
    return line
