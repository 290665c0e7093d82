"""The names of the built-in advantages and losses, and the fields of the configuration that each sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, model_validator

from components.frozen import Frozen
from components.suggestions import did_you_mean
from components.user_code import is_own


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The fields that a name sets unless they are given, and those that it fixes."""

    sets: Mapping[str, Any] = field(default_factory=dict)
    fixes: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""
    """Why a fixed field cannot differ, and what to do."""


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
    "c3": Choice(
        fixes={"leave_one_out": True, "normalize_std": False},
        refusal="advantage c3 is the leave-one-out baseline and divides by no deviation: leave out leave_one_out and "
        "normalize_std, or use at_grpo",
    ),
    "gigpo": Choice(sets={"step_weight": 1.0, "step_discount": 0.95}),
    "solver_value": Choice(
        sets={"normalize_std": False},
        fixes={"leave_one_out": False, "normalize_over": "batch"},
        refusal="advantage solver_value compares no actions: leave out leave_one_out and normalize_over",
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
        fixes={"dual_clip": None},
        refusal="dual_clip bounds the clipped surrogate, which cispo does not have: leave it out",
    ),
}
DTYPES: Mapping[str, Choice] = {"bfloat16": Choice(sets={"probe_tolerance": 0.5})}
DEVICES: Mapping[str, Choice] = {"cuda": Choice(sets={"tokens_per_micro_batch": 16384})}


def _checked(choices: Mapping[str, Choice]) -> AfterValidator:
    """Accepts the name of a choice or `module:function`. Raises ValueError with the nearest name."""

    def check(name: str) -> str:
        if name in choices or is_own(name):
            return name
        names = ", ".join(map(repr, choices))
        raise ValueError(f"unknown; {did_you_mean(name, choices)}there are {names}; one of your own is module:function")

    return AfterValidator(check)


AdvantageName = Annotated[str, _checked(ADVANTAGES)]
PolicyLossName = Annotated[str, _checked(POLICY_LOSSES)]


class ChoosingSection(Frozen):
    """A section whose field `chosen_by` sets and fixes others by the choice that it names."""

    chosen_by: ClassVar[str]
    choices: ClassVar[Mapping[str, Choice]]

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        name = values.get(cls.chosen_by) if isinstance(values, Mapping) else None
        chosen = cls.choices.get(name) if isinstance(name, str) else None
        return {**chosen.sets, **chosen.fixes, **values} if chosen else values

    @model_validator(mode="after")
    def _check_fixed(self) -> Self:
        """A fixed field may be spelled out, but not contradicted."""
        choice = self.choices.get(getattr(self, self.chosen_by), Choice())
        if any(getattr(self, name) != value for name, value in choice.fixes.items()):
            raise ValueError(choice.refusal)
        return self
