"""Presets at another level of specialisation: one agent, one policy, an adapter per role, a model per role."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from components.errors import ConfigurationError
from flows.presets import all_preset_values

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
