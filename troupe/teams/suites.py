"""The configuration of what `--suite` and `troupe play` name."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from components.config import RunConfig, parse_config
from components.environments.registry import FAMILIES, family, installed_environments
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.suites import suite
from components.suggestions import suggest
from components.turn_order import BRANCHING
from components.user_code import is_own
from flows.presets import all_preset_values, is_file, preset_config, with_overrides

_TURNS_WITHOUT_PRESET = 4
_FILE = re.compile(r"(.+\.ya?ml)(?:/(.*))?")


def suite_config(text: str, overrides: Sequence[str] = ()) -> tuple[RunConfig, str]:
    """The configuration and the suite in `ENVIRONMENT_OR_PRESET_OR_FILE.yaml[/SUITE]`; SUITE is test by default. Raises
    ConfigurationError.

    A preset, preferred to an environment of its name, brings its options and turns; an environment has its default options and
    the most turns of any of its presets.
    """
    name, suite_name = named_suite(text)
    suite(suite_name)
    if is_file(name):
        return preset_config(name, overrides), suite_name
    presets = all_preset_values()
    if name not in presets and not _is_environment(name):
        known = ", ".join(_known_names())
        raise ConfigurationError(f"--suite {text!r}: {name!r} is no environment and no preset; there are {known}")
    return parse_config(with_overrides(presets.get(name) or _bare_values(name), overrides)), suite_name


def named_suite(text: str) -> tuple[str, str]:
    """What is played, and the suite, test by default. **Example** "a/mine.yaml/train" is ("a/mine.yaml", "train")."""
    found = _FILE.match(text)
    name, suite_name = found.groups() if found else text.partition("/")[::2]
    return name, suite_name or "test"


def played_config(name: str | None, options: Mapping[str, Any], *, own: RunConfig | None) -> RunConfig:
    """The configuration of what `troupe play NAME` plays, with `options` set on top. Raises ConfigurationError.

    None, or the environment of a run (`own`), means the run's configuration.
    """
    if name is None and own is None:
        raise ConfigurationError(
            "ENV: name an environment, a preset or a file, as `troupe play plan_path`; only a run has its own"
        )
    presets = all_preset_values()
    if own is not None and name in (None, own.environment.name):
        chosen = own
    elif name is not None and is_file(name):
        chosen = preset_config(name)
    elif name is not None and _is_environment(name):
        return read_as(bare_config(name, options), own)
    elif name in presets:
        chosen = parse_config(presets[name])
    else:
        known = _known_names()
        remedy = suggest(str(name), known, otherwise=f"there are {', '.join(known)}")
        raise ConfigurationError(f"environment.name {name!r}: no environment and no preset; {remedy}")
    environment = chosen.environment.model_copy(update={"options": {**chosen.environment.options, **options}})
    return read_as(chosen.model_copy(update={"environment": environment}), own)


def read_as(config: RunConfig, own: RunConfig | None) -> RunConfig:
    """`config` with answers read as in the configuration of the run that plays it (`own`), because its team learned so."""
    if own is None:
        return config
    environment = config.environment.model_copy(update={"answers": own.environment.answers})
    return config.model_copy(update={"environment": environment})


def bare_config(environment: str, options: Mapping[str, Any]) -> RunConfig:
    """A configuration that trains nothing: the environment with these options, and one policy in every role."""
    values = _bare_values(environment)
    return parse_config(values | {"environment": {**values["environment"], "options": options}})


def _is_environment(name: str) -> bool:
    return name in FAMILIES or is_own(name) or name in installed_environments()


def _known_names() -> list[str]:
    """All environments and presets, each once."""
    return list(dict.fromkeys([*FAMILIES, *installed_environments(), *all_preset_values()]))


def _bare_values(environment: str) -> dict[str, Any]:
    sections = [values.get("environment") for values in all_preset_values().values()]
    played = [section for section in sections if isinstance(section, dict) and section.get("name") == environment]
    chosen = family(environment)
    # In a team that branches, each answer is a turn.
    answers = len(chosen.roles) if turn_order_of(chosen, None) == BRANCHING else 1
    turns = max((section.get("max_turns", 2) for section in played), default=_TURNS_WITHOUT_PRESET * answers)
    return {
        "num_steps": 0,
        "environment": {"name": environment, "max_turns": turns},
        "agents": {role: {"policy": "team"} for role in chosen.roles},
        "policies": {"team": {}},
    }
