"""pass@k: the probability that one of k answers succeeds."""

from dataclasses import dataclass
from math import comb
from statistics import fmean

from components.evaluation.statistics import rate_interval
from components.schema import EvalReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate with its 95% interval."""

    value: float
    interval: tuple[float, float]


def pass_at_k(report: EvalReport, k: int) -> Rate:
    """The probability that one of `k` answers to a problem succeeds, unbiased: over all choices of `k` of its answers.

    `1 - C(n - c, k) / C(n, k)` for c successes in n answers (M. Chen et al., "Evaluating large language models trained on
    code", arXiv:2107.03374, eq. 1), and the mean over problems. `1 - (1 - c/n)^k` would be too low. Raises ValueError if there
    are fewer than `k` answers.

    **Example** one problem, 1 success in 4 answers: pass@2 is 1 - 3/6 = 0.5.
    """
    n = report.num_samples
    if not 1 <= k <= n:
        raise ValueError(f"k = {k}: each problem has {n} answers; choose 1 to {n}, or evaluate with more samples")
    passed_P = [1 - comb(n - num_solved, k) / comb(n, k) for num_solved in report.num_solved_P]
    return Rate(value=fmean(passed_P), interval=rate_interval(passed_P, num_samples=n // k))
