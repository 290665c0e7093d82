"""Competence: how well a member does beside the others, as a number from 0 to `max_capability` that follows its returns.

Returns are standardised over the members of an episode and mapped to 0..1 by the normal distribution, so that the
average member's target is .5 whatever the game pays. Nothing decays while nobody plays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import erf, exp, fsum, sqrt
from typing import Any, Literal

from components.bounds import checked_share
from components.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetenceFactor:
    """How competence follows returns, and what it changes.

    `general` keeps one number, `specialized` one for each kind of problem, `adaptive` one that scales the learning
    rate.
    """

    type: Literal["general", "specialized", "adaptive"] = "general"
    base_capability: float = 0.5
    adaptation_speed: float = 0.1
    specialization_level: float = 0.0
    max_capability: float = 1.0

    def __post_init__(self) -> None:
        checked_share("adaptation_speed", self.adaptation_speed)
        if not 0 <= self.base_capability <= self.max_capability:
            raise ConfigurationError(
                f"base_capability {self.base_capability}: use 0 to max_capability, {self.max_capability}"
            )
        if self.specialization_level < 0:
            raise ConfigurationError(f"specialization_level {self.specialization_level}: use 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Competence:
    """One member's competence by kind of problem; "" is the one kind of the general factor."""

    factor: CompetenceFactor
    by_kind: Mapping[str, float] = field(default_factory=dict)

    def value(self, kind: str = "") -> float:
        """The competence at problems of a kind, 0 to max_capability; before the first episode the base."""
        return self.by_kind.get(self._key(kind), self.factor.base_capability)

    def after(self, target: float, kind: str = "") -> "Competence":
        """The competence after an episode: `c + adaptation_speed (target - c)`, kept within 0 and max_capability.

        **Example** .5 after a target of 1 at speed .1: .55.
        """
        before = self.value(kind)
        moved = before + self.factor.adaptation_speed * (checked_share("target", target) - before)
        kept = min(max(moved, 0.0), self.factor.max_capability)
        return Competence(factor=self.factor, by_kind={**self.by_kind, self._key(kind): kept})

    def learning_rate_factor(self) -> float:
        """What the learning rate is multiplied by: `1 + (1 - c) / 2` for `adaptive`, so that the weak learn faster; else 1.

        **Example** c = .5: 1.25.
        """
        return 1 + 0.5 * (1 - self.value()) if self.factor.type == "adaptive" else 1.0

    def to_json(self) -> dict[str, Any]:
        """The competence as JSON types; `from_json` gives an equal one."""
        return {"factor": asdict(self.factor), "by_kind": dict(self.by_kind)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Competence":
        """The competence that `to_json` wrote."""
        return cls(factor=CompetenceFactor(**stored["factor"]), by_kind=stored["by_kind"])

    def _key(self, kind: str) -> str:
        return kind if self.factor.type == "specialized" else ""


def competence_targets(returns_N: Sequence[float]) -> tuple[float, ...]:
    """Each return as the share of a normal distribution below it, with the members' mean and deviation; .5 if all are equal.

    **Example** (1, 0): z is 1 and -1, the targets are .841 and .159.
    """
    mean = fsum(returns_N) / len(returns_N)
    deviation = sqrt(fsum((each - mean) ** 2 for each in returns_N) / len(returns_N))
    if min(returns_N) == max(returns_N) or deviation == 0:
        return (0.5,) * len(returns_N)
    return tuple((1 + erf((each - mean) / deviation / sqrt(2))) / 2 for each in returns_N)


def routing_shares(members: Sequence[Competence], kind: str) -> tuple[float, ...]:
    """The share of the problems of a kind that each member gets: softmax of `specialization_level * competence`.

    **Example** competences 1 and 0 at level 0: (.5, .5); at level 3: (.953, .047).
    """
    weights = [exp(each.factor.specialization_level * each.value(kind)) for each in members]
    total = fsum(weights)
    return tuple(weight / total for weight in weights)
