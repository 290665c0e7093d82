"""What a subject solved of a suite with several answers per problem: avg@k and pass@k."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean

from components.evaluation.statistics import rate_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate with its 95% interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOutcomes:
    """The success of `subject` on each problem of a suite. Axes: P problems, K answers to each.

    Two subjects are comparable if their problems and seeds are equal. A failed episode is no success.
    """

    subject: str
    seed: int
    problems_P: tuple[str, ...]
    """The problems' ids."""
    solved_P_K: tuple[tuple[bool, ...], ...]

    def __post_init__(self) -> None:
        if len(self.problems_P) != len(self.solved_P_K):
            raise ValueError(f"solved_P_K: outcomes of {len(self.solved_P_K)} for {len(self.problems_P)} problems")
        if not self.problems_P:
            raise ValueError("problems_P: no problem; evaluate at least one")
        if len({*map(len, self.solved_P_K)}) > 1 or not self.solved_P_K[0]:
            numbers = sorted({*map(len, self.solved_P_K)})
            raise ValueError(f"solved_P_K: {numbers} answers per problem; give each problem equally many, at least one")

    @property
    def num_samples(self) -> int:
        """Answers to each problem."""
        return len(self.solved_P_K[0])

    @property
    def rates_P(self) -> tuple[float, ...]:
        """The success rate of each problem."""
        return tuple(sum(solved_K) / len(solved_K) for solved_K in self.solved_P_K)


def avg_at_k(outcomes: SuiteOutcomes) -> Rate:
    """The mean success over all answers, with its interval over problems. **Example** (1, 0), (1, 1): 0.75."""
    rates_P = outcomes.rates_P
    return Rate(value=fmean(rates_P), interval=rate_interval(rates_P, num_samples=outcomes.num_samples))


def pass_at_k(outcomes: SuiteOutcomes, k: int) -> Rate:
    """The probability that one of `k` answers to a problem succeeds, unbiased: over all choices of `k` of its answers.

    `1 - C(n - c, k) / C(n, k)` for c successes in n answers (M. Chen et al., "Evaluating large language models trained on
    code", arXiv:2107.03374, eq. 1), and the mean over problems. `1 - (1 - c/n)^k` would be too low. Raises ValueError if there
    are fewer than `k` answers.

    **Example** one problem, 1 success in 4 answers: pass@2 is 1 - 3/6 = 0.5.
    """
    n = outcomes.num_samples
    if not 1 <= k <= n:
        raise ValueError(f"k = {k}: each problem has {n} answers; choose 1 to {n}, or evaluate with more samples")
    passed_P = [_passed(solved_K, k) for solved_K in outcomes.solved_P_K]
    return Rate(value=fmean(passed_P), interval=rate_interval(passed_P, num_samples=n // k))


def _passed(solved_K: Sequence[bool], k: int) -> float:
    n, num_solved = len(solved_K), sum(solved_K)
    return 1 - comb(n - num_solved, k) / comb(n, k)
