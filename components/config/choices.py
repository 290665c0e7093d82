"""What the built-in advantages and losses are called, and which fields of the configuration each brings along."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.nearest import meant
from components.own_code import is_own


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a name stands for: `sets` where the fields are not given, `fixes` whether or not they are spelled out."""

    sets: Mapping[str, Any] = field(default_factory=dict)
    fixes: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""
    """Why a fixed field cannot be another, and what to do."""


ADVANTAGES: Mapping[str, Choice] = {
    "at_grpo": Choice(),
    "grpo": Choice(),
    "dr_mas": Choice(),
    "rloo": Choice(
        sets={"normalize_std": False},
        fixes={"leave_one_out": True},
        refusal="advantage rloo is the leave-one-out baseline: leave out leave_one_out, or use grpo",
    ),
    "dr_grpo": Choice(
        fixes={"normalize_std": False},
        refusal="advantage dr_grpo does not divide by a deviation: leave out normalize_std, or use grpo",
    ),
    "reinforce_pp": Choice(
        fixes={"leave_one_out": False, "normalize_std": True, "normalize_over": "batch"},
        refusal="advantage reinforce_pp normalises over the batch and has no group: leave out normalize_std, normalize_over "
        "and leave_one_out, or use grpo with normalize_over batch",
    ),
}
POLICY_LOSSES: Mapping[str, Choice] = {
    "clip": Choice(),
    "gspo": Choice(
        fixes={"aggregation": "sequence_mean"},
        refusal="policy_loss gspo has one ratio per answer, which another aggregation would weigh by length: leave out "
        "aggregation",
    ),
    "cispo": Choice(
        fixes={"dual_clip": None}, refusal="dual_clip bounds the clipped surrogate, which cispo has not: leave it out"
    ),
}


def checked_choice(name: str, choices: Mapping[str, Choice]) -> str:
    """`name` itself, when it is built in or `module:function`. Raises ValueError with the nearest name."""
    if name in choices or is_own(name):
        return name
    names = ", ".join(map(repr, choices))
    raise ValueError(f"unknown; {meant(name, choices)}there are {names}; one of your own is module:function")


def filled_in(values: Any, field_name: str, choices: Mapping[str, Choice]) -> Any:
    """`values` with the fields that the chosen name brings along, where they are not given."""
    if not isinstance(values, Mapping):
        return values
    name = values.get(field_name)
    chosen = choices.get(name, Choice()) if isinstance(name, str) else Choice()
    return {**chosen.sets, **chosen.fixes, **values}


def check_fixed(section: Any, choice: Choice) -> None:
    """Pass when no field of `section` contradicts what was chosen. Raises ValueError."""
    if any(getattr(section, name) != value for name, value in choice.fixes.items()):
        raise ValueError(choice.refusal)
