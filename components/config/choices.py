"""Sections in which one field sets and fixes others, by the choice that it names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from pydantic import AfterValidator, model_validator

from components.frozen import Frozen
from components.suggestions import did_you_mean
from components.user_code import is_own, suggest_own


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The fields that a name sets unless they are given, and those that it fixes."""

    sets: Mapping[str, Any] = field(default_factory=dict)
    fixes: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""
    """Why a fixed field cannot differ, and what to do."""


def name_of_choice(choices: Mapping[str, Choice]) -> AfterValidator:
    """Accepts the name of a choice or `module:function`. Raises ValueError with the nearest name."""

    def check(name: str) -> str:
        if name in choices or is_own(name):
            return name
        names = ", ".join(map(repr, choices))
        own = suggest_own(name, kind="function") or "one of your own is module:function"
        raise ValueError(f"unknown; {did_you_mean(name, choices)}there are {names}; {own}")

    return AfterValidator(check)


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
