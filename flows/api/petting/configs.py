"""The named configurations: a domain's preset at a level of specialisation."""

import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from components.environments.registry import family, family_options
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.text.suggestions import did_you_mean, suggest
from components.turn_order import in_phases
from flows.presets import all_preset_values, file_values, is_file, with_overrides

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
_ADAPTED = "plan-path-l2"
"""The preset whose adapter, and its learning rate, all configurations of level l2 have."""


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
        return _named_values(name, env_name)
    environments = DOMAINS[made[1]]
    chosen = next(iter(environments)) if env_name is None else env_name
    if chosen not in environments:
        raise ConfigurationError(f"config['env_name'] {chosen!r}: not in {made[1]}; {suggest(chosen, environments)}")
    values = with_overrides(all_preset_values()[environments[chosen]], ())
    return {**at_level(values, LEVELS[made[2]]), "preset": name}


def at_level(values: Mapping[str, Any], level: str) -> dict[str, Any]:
    """A preset's plain values, all of whose roles have one policy, at another level of specialisation.

    **Example** l3 of {tester: {policy: team}, coder: {policy: team}}: {tester: {policy: tester}, coder: {policy: coder}}, each
    of the two policies as team was.
    """
    agents: dict[str, Any] = values["agents"]
    if len(values["policies"]) != 1:
        raise ConfigurationError(
            f"preset {values.get('preset')}: its policies are {sorted(values['policies'])}; the configurations of a domain "
            "are made of a preset with one policy for all roles"
        )
    (policy,) = values["policies"].values()
    if level == "l0":
        settings = values["environment"]
        environment = family(settings["name"]).under(family_options(settings["name"], settings.get("options", {})))
        role = in_phases(turn_order_of(environment, settings.get("turn_order")))[-1][-1]
        rollout = without(values["rollout"], "random_handoff_probability") | {"mode": "single"}
        return {**values, "rollout": rollout, "algorithm": {"advantage": "grpo"}, "agents": {role: agents[role]}}
    if level == "l1":
        return dict(values)
    adapted = next(iter(all_preset_values()[_ADAPTED]["policies"].values())) if level == "l2" else {}
    own = {key: adapted[key] for key in ("adapter", "learning_rate") if key in adapted}
    return {
        **values,
        "agents": {role: {**agent, "policy": role} for role, agent in agents.items()},
        "policies": {role: deepcopy({**policy, **own}) for role in agents},
    }


def without(section: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The section without these keys."""
    return {key: value for key, value in section.items() if key not in keys}


def _named_values(name: str, env_name: str | None) -> dict[str, Any]:
    """The values of a preset or a file."""
    presets = {name: file_values(Path(name))} if is_file(name) else all_preset_values()
    if name not in presets:
        raise ConfigurationError(
            f"config_name {name!r} does not exist; {did_you_mean(name, [*config_names(), *presets])}configurations: "
            f"{', '.join(config_names())}; every preset of `troupe presets`; or a file, as mine.yaml"
        )
    values = with_overrides(presets[name], ())  # a copy in which YAML aliases are sections of their own
    own = values.get("environment", {}).get("name")
    if env_name not in (None, own):
        raise ConfigurationError(
            f"config['env_name'] {env_name!r}: {name} is of {own}; name the configuration of a domain, as "
            "stateful_single_policy"
        )
    return values
