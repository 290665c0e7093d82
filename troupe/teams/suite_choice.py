"""What `--suite` and `troupe play` name, as a configuration."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.config import RunConfig, parse_config
from components.environments.registry import FAMILIES, family, installed_environments
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.suites import suite
from components.nearest import remedy_for
from components.own_code import is_own
from components.turn_order import BRANCHING
from flows.presets import all_preset_values, with_overrides

_TURNS_WITHOUT_PRESET = 4


def suite_config(text: str, overrides: Sequence[str] = ()) -> tuple[RunConfig, str]:
    """The configuration and the suite that `ENVIRONMENT_OR_PRESET[/SUITE]` names; SUITE is test where it is left out.

    A preset brings its options and turns; an environment's name means its default options and the most turns that a preset
    gives it. Where a preset has an environment's name, the preset is meant. Raises ConfigurationError.

    **Example** "code-tiny/train" is the train split of the preset code-tiny, "sokoban" the test split of sokoban.
    """
    name, _, suite_name = text.partition("/")
    suite_name = suite_name or "test"
    suite(suite_name)
    presets = all_preset_values()
    if name in presets:
        return parse_config(with_overrides(presets[name], overrides)), suite_name
    if name not in FAMILIES and not is_own(name) and name not in installed_environments():
        known = ", ".join([*FAMILIES, *installed_environments(), *presets])
        raise ConfigurationError(f"--suite {text!r}: {name!r} is no environment and no preset; there are {known}")
    values = with_overrides(_bare_values(name), overrides)
    return parse_config(values), suite_name


def played_config(name: str | None, options: Mapping[str, Any], *, own: RunConfig | None) -> RunConfig:
    """The configuration of what `troupe play NAME` plays, with `options` set on top of those that it brings.

    None, and the name of the environment that a run (`own`) was trained on, mean the run's own; another environment's name
    means its default options, a preset's name the preset's. Raises ConfigurationError.
    """
    if name is None and own is None:
        raise ConfigurationError(
            "ENV: name an environment or a preset, as `troupe play plan_path`; only a run has its own"
        )
    presets = all_preset_values()
    if own is not None and name in (None, own.environment.name):
        chosen = own
    elif name is not None and (name in FAMILIES or is_own(name) or name in installed_environments()):
        return bare_config(name, options)
    elif name is not None and name in presets:
        chosen = parse_config(presets[name])
    else:
        known = [*FAMILIES, *presets]
        remedy = remedy_for(str(name), known, otherwise=f"there are {', '.join(known)}")
        raise ConfigurationError(f"environment.name {name!r}: no environment and no preset; {remedy}")
    environment = chosen.environment.model_copy(update={"options": {**chosen.environment.options, **options}})
    return chosen.model_copy(update={"environment": environment})


def bare_config(environment: str, options: Mapping[str, Any]) -> RunConfig:
    """A configuration that trains nothing: the environment with these options, every role played by one policy."""
    values = _bare_values(environment)
    return parse_config(values | {"environment": {**values["environment"], "options": options}})


def _bare_values(environment: str) -> dict[str, Any]:
    played = [
        section for values in all_preset_values().values() if isinstance(section := values.get("environment"), dict)
    ]
    turns = [section.get("max_turns", 2) for section in played if section.get("name") == environment]
    chosen = family(environment)
    # Of a team that branches each answer is a turn.
    answers = len(chosen.roles) if turn_order_of(chosen, None) == BRANCHING else 1
    return {
        "num_steps": 0,
        "environment": {"name": environment, "max_turns": max(turns, default=_TURNS_WITHOUT_PRESET * answers)},
        "agents": {role: {"policy": "team"} for role in chosen.roles},
        "policies": {"team": {}},
    }
