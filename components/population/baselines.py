"""Baselines by role, for games whose roles earn differently: a first mover's edge is not skill.

`RoleBaselines` is SPIRAL's role-conditioned advantage (RAE, arXiv:2506.24119): one exponential average of returns for
each game and role, and `A = R - b`. As in the authors' code, b is the average from before the episode, which the action
cannot have changed, so that the estimate is unbiased. The state is a value: JSON, folded in the order of problems and
never in that of arrival, equal to the bit after a resume.

`sum_then_normalise` is MARSHAL's (arXiv:2510.15414): the rewards of a role's turns are first summed from each turn to
the end, and then compared with all sums of that role in the batch. To compare single rewards first, and sum after,
subtracts the baseline once for each turn that is left, and so, where rewards are positive, pays for short games.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum, isfinite, sqrt
from typing import Any

from components.bounds import checked_share
from components.errors import ConfigurationError

EPSILON = 1e-4
"""As in `components.algorithms.normalisation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one role of one episode earned, raw or mixed. `order` is the episode's place among those of the run."""

    order: int
    game: str
    role: str
    earned: float


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

    def after(self, outcome: Outcome) -> "RoleBaselines":
        """The baselines after one outcome: `b = decay b + (1 - decay) R`. Raises ConfigurationError for NaN and infinity.

        **Example** decay .95, b 0 after a return of 1: .05.
        """
        if not isfinite(outcome.earned):
            raise ConfigurationError(f"earned {outcome.earned} of {outcome.game}/{outcome.role}: leave it out")
        moved = self.decay * self.value(outcome.game, outcome.role) + (1 - self.decay) * outcome.earned
        roles = {**self.values.get(outcome.game, {}), outcome.role: moved}
        return RoleBaselines(decay=self.decay, values={**self.values, outcome.game: roles})

    def to_json(self) -> dict[str, Any]:
        """The baselines as JSON types; `RoleBaselines(**stored)` is equal."""
        return {"decay": self.decay, "values": {game: dict(roles) for game, roles in self.values.items()}}


def role_advantages(baselines: RoleBaselines, outcomes: Sequence[Outcome]) -> tuple[tuple[float, ...], RoleBaselines]:
    """The advantage `R - b` of each outcome, in the order given, and the baselines after all.

    Outcomes are folded by `order` and, within an episode, by game and role, however they are given.

    **Example** decay .5, returns 1 and then 1 of one role from b = 0: advantages (1, .5), baseline .75.
    """
    keys = [(each.order, each.game, each.role) for each in outcomes]
    folded = sorted(range(len(outcomes)), key=keys.__getitem__)
    if any(keys[one] == keys[other] for one, other in pairwise(folded)):
        raise ConfigurationError("order: two outcomes of one episode, game and role; number the episodes of a run")
    advantages = [0.0] * len(outcomes)
    for index in folded:
        outcome = outcomes[index]
        advantages[index] = outcome.earned - baselines.value(outcome.game, outcome.role)
        baselines = baselines.after(outcome)
    return tuple(advantages), baselines


def sum_then_normalise(
    rewards_E_T: Sequence[Sequence[float]], roles_E_T: Sequence[Sequence[str]], *, normalise_std: bool = False
) -> tuple[tuple[float, ...], ...]:
    """The advantage of each turn, [E, T]: the role's rewards from that turn to the end, less the mean of the role's sums.

    A sum counts the turns of the same role alone; a reward that a role gets at another's turn is entered at its own
    last turn. The advantages of a role sum to 0. With `normalise_std` they are divided by the role's deviation plus
    1e-4.

    **Example** one role in two episodes with rewards (0, 1) and (0): sums (1, 1) and (0), mean 2/3, advantages (1/3,
    1/3) and (-2/3).
    """
    sums_E_T = [role_sums(rewards, roles) for rewards, roles in zip(rewards_E_T, roles_E_T, strict=True)]
    by_role: dict[str, list[float]] = {}
    for sums, roles in zip(sums_E_T, roles_E_T, strict=True):
        for value, role in zip(sums, roles, strict=True):
            by_role.setdefault(role, []).append(value)
    scales = {role: _mean_and_deviation(values) for role, values in by_role.items()}

    def advantage(value: float, role: str) -> float:
        mean, deviation = scales[role]
        return (value - mean) / (deviation + EPSILON) if normalise_std else value - mean

    return tuple(
        tuple(advantage(value, role) for value, role in zip(sums, roles, strict=True))
        for sums, roles in zip(sums_E_T, roles_E_T, strict=True)
    )


def role_sums(rewards_T: Sequence[float], roles_T: Sequence[str]) -> tuple[float, ...]:
    """At each turn, the sum of the rewards of its role from there to the end of the episode.

    **Example** rewards (1, 5, 2) of roles (a, b, a): (3, 5, 2).
    """
    left: dict[str, float] = {}
    sums: list[float] = []
    for reward, role in zip(reversed(rewards_T), reversed(roles_T), strict=True):
        left[role] = left.get(role, 0.0) + reward
        sums.append(left[role])
    return tuple(reversed(sums))


def _mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    if min(values) == max(values):
        return values[0], 0.0
    mean = fsum(values) / len(values)
    return mean, sqrt(fsum((value - mean) ** 2 for value in values) / len(values))
