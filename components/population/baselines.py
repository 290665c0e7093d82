"""Baselines by role, for games whose roles earn differently: a first mover's edge is not skill.

`RoleBaselines` is SPIRAL's role-conditioned advantage (RAE, arXiv:2506.24119): one exponential average of returns for
each game and role, and `A = R - b`. As in the authors' code, b is the average from before the episode, which the action
cannot have changed, so that the estimate is unbiased. The state is a value: JSON, folded in the order of problems and
never in that of arrival, equal to the bit after a resume.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from components.bounds import checked_share
from components.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleBaselines:
    """`values` is game -> role -> average return; a role that was never played has 0, as in the paper."""

    decay: float = 0.95
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_share("decay", self.decay)

    def value(self, game: str, role: str) -> float:
        """The baseline of a role of a game."""
        return self.values.get(game, {}).get(role, 0.0)

    def after(self, game: str, role: str, earned: float) -> "RoleBaselines":
        """The baselines after a return: `b = decay b + (1 - decay) R`. Raises ConfigurationError for NaN and infinity.

        **Example** decay .95, b 0 after a return of 1: .05.
        """
        if not isfinite(earned):
            raise ConfigurationError(f"earned {earned} of {game}/{role}: leave it out")
        moved = self.decay * self.value(game, role) + (1 - self.decay) * earned
        roles = {**self.values.get(game, {}), role: moved}
        return RoleBaselines(decay=self.decay, values={**self.values, game: roles})
