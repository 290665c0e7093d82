"""Whether members' returns rise together: the state that shares out cooperation and competition in the mixed mode.

After every episode the mean correlation of all pairs of members is taken over the last episodes, and followed by an
exponential average. The state is a value: JSON, folded in the order of the episodes, equal to the bit after a resume.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum, isfinite, sqrt

from components.errors import ConfigurationError

DECAY = 0.9
WINDOW = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnCorrelation:
    """`value` is rho, -1 to 1. `returns_E_N` are the raw returns of the last episodes, oldest first."""

    value: float = 0.0
    returns_E_N: tuple[tuple[float, ...], ...] = ()

    def after(self, returns_N: Sequence[float]) -> "ReturnCorrelation":
        """The state after one more episode: `rho = .9 rho + .1 mean correlation` over the last 32 episodes.

        **Example** returns (0, 0) and then (1, 1): the pair correlates by 1, and rho is .1.
        """
        if self.returns_E_N and len(self.returns_E_N[0]) != len(returns_N):
            raise ConfigurationError(
                f"{len(returns_N)} returns after episodes of {len(self.returns_E_N[0])} members: use one order"
            )
        if not all(map(isfinite, returns_N)):
            raise ConfigurationError(f"returns {tuple(returns_N)}: not finite; leave the episode out")
        window = (*self.returns_E_N, tuple(map(float, returns_N)))[-WINDOW:]
        return ReturnCorrelation(value=DECAY * self.value + (1 - DECAY) * mean_correlation(window), returns_E_N=window)


def mean_correlation(returns_E_N: Sequence[Sequence[float]]) -> float:
    """The mean of Pearson's correlation over all pairs of members, -1 to 1; 0 for a pair of which one never changes.

    **Example** episodes (0, 0, 1), (1, 1, 0): pairs 1, -1, -1, mean -1/3. It is never below -1/(N-1).
    """
    if not returns_E_N:
        return 0.0
    series_N_E = list(zip(*returns_E_N, strict=True))
    pairs = [correlation(one, other) for one, other in combinations(series_N_E, 2)]
    return fsum(pairs) / len(pairs) if pairs else 0.0


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's correlation, -1 to 1; 0 where one of both never changes, or has less than two values.

    **Example** (1, 2, 3) with (2, 4, 6) is 1; (1, 2, 1) with (5, 5, 5) is 0.
    """
    if len(one) < 2 or min(one) == max(one) or min(other) == max(other):
        return 0.0
    mean_one, mean_other = fsum(one) / len(one), fsum(other) / len(other)
    ones = [value - mean_one for value in one]
    others = [value - mean_other for value in other]
    spread = sqrt(fsum(x * x for x in ones)) * sqrt(fsum(y * y for y in others))
    return max(-1.0, min(1.0, fsum(x * y for x, y in zip(ones, others, strict=True)) / spread)) if spread else 0.0
