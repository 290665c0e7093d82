"""Defaults of teams of pretrained chat models. Those of the fields are for the small model that is built and cloned here."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from components.config.generation import BFLOAT16_PROBE

BFLOAT16_MISMATCH = 2.0
"""The `mismatch_tolerance` for bfloat16: a few times the largest difference that rounding made among 3,000 sampled tokens of
SmolLM2."""
IMPORTANCE_CAP = 2.0
MAX_NEW_TOKENS = 256
LEARNING_RATE = 1.0e-5
ADAPTER_LEARNING_RATE = 1.5e-4
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "environment": {"answer_format": "free"},
    "rollout": {"num_problems": 8},
    "evaluation": {"num_problems": 40, "sampling": ("sample",)},
}
_DTYPES = ("generation", "training")


def with_chat_defaults(values: Any, unread: Collection[str] = ()) -> Any:
    """A configuration's plain values, with what fits pretrained chat models in the fields that are not given, but for sections
    that are `unread`.

    Only where every policy has prompt_format chat, and some of them weights here. A section that is no mapping stays as it is.
    """
    if not isinstance(values, Mapping) or not _is_chat_team(values.get("policies")):
        return values
    filled = dict(values)
    if _read_field(values.get("training", {}), "learning_rate") is None:
        filled["policies"] = {name: _with_rate(policy) for name, policy in values["policies"].items()}
    for section, defaults in (*_DEFAULTS.items(), *_precision(values), *_rate(values["policies"])):
        if section in unread:
            continue
        filled[section] = _fill(filled.get(section, {}), defaults)
    if isinstance(agents := values.get("agents"), Mapping):
        filled["agents"] = {role: _with_limit(agent, values["policies"]) for role, agent in agents.items()}
    return filled


def unset_counts(values: Any) -> Iterator[str]:
    """The sections of a configuration's plain values for which nobody chose `num_problems`, though a default fills it in."""
    for section in ("rollout", "evaluation"):
        given = values.get(section, {}) if isinstance(values, Mapping) else getattr(values, section)
        chosen = given if isinstance(given, Mapping) else given.model_fields_set
        if "num_problems" not in chosen:
            yield section


def _is_chat_team(policies: Any) -> bool:
    if not isinstance(policies, Mapping) or not policies:
        return False
    given = list(policies.values())
    are_chat = all(_read_field(policy, "prompt_format") == "chat" for policy in given)
    return are_chat and any(_read_field(policy, "api") is None for policy in given)


def _precision(values: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """bfloat16 on the CPU if no dtype is given, and with bfloat16 what it asks of the loss and of the engine's probe."""
    sections = [values.get(name, {}) for name in _DTYPES]
    dtypes = [_read_field(section, "dtype") for section in sections]
    is_on_cpu = all(_read_field(section, "device") in (None, "cpu") for section in sections)
    is_chosen = dtypes == [None, None] and is_on_cpu
    if is_chosen:
        yield from ((name, {"dtype": "bfloat16"}) for name in _DTYPES)
    if is_chosen or "bfloat16" in dtypes:
        yield "loss", {"importance_cap": IMPORTANCE_CAP, "mismatch_tolerance": BFLOAT16_MISMATCH}
        yield "generation", {"probe_tolerance": BFLOAT16_PROBE}


def _rate(policies: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rate of whole models, which would lose what they know at that of a model built here."""
    if any(_read_field(policy, "adapter") is None for policy in policies.values()):
        yield "training", {"learning_rate": LEARNING_RATE}


def _with_rate(policy: Any) -> Any:
    return (
        _fill(policy, {"learning_rate": ADAPTER_LEARNING_RATE})
        if _read_field(policy, "adapter") is not None
        else policy
    )


def _with_limit(agent: Any, policies: Mapping[str, Any]) -> Any:
    """A model behind an API may count its thinking, so it has no limit from here."""
    is_behind_api = _read_field(policies.get(_read_field(agent, "policy"), {}), "api") is not None
    return agent if is_behind_api else _fill(agent, {"max_new_tokens": MAX_NEW_TOKENS})


def _fill(section: Any, defaults: Mapping[str, Any]) -> Any:
    return {**defaults, **section} if isinstance(section, Mapping) else section


def _read_field(section: Any, field: str) -> Any:
    """The value of a field in a section of plain values, or in one that is already built."""
    return section.get(field) if isinstance(section, Mapping) else getattr(section, field, None)
