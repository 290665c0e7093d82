"""The confidence intervals of a success rate, and of the difference of two on the same problems."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean

from components.mathematics.intervals import score_interval


def rate_interval(rates_P: Sequence[float], *, num_samples: int) -> tuple[float, float]:
    """The 95% interval of the mean of rates in [0, 1], one per problem, each from `num_samples` answers; (0, 1) for none.

    Answers to one problem resemble each other, so that they are no `num_samples` independent ones. The interval is Wilson's
    with the number of independent answers of the same variance (J. N. K. Rao and A. J. Scott, "A simple method for the analysis
    of clustered binary data", Biometrics 48, 1992): at most all of them, and one per problem if all rates are 0 or all are 1.
    With one sample it is Wilson's.

    **Example** 50 problems with 4 samples each: as 49 answers if each problem is solved always or never, as 200 if each is
    solved in 2 of 4.
    """
    return (0.0, 1.0) if not rates_P else score_interval(fmean(rates_P), _effective_n(rates_P, num_samples))


def compute_paired_interval(
    before_P: Sequence[float], after_P: Sequence[float], *, num_samples: int = 1
) -> tuple[float, float]:
    """The 95% interval of the mean rate after less that before, on the same problems in the same order; (-1, 1) for none.

    Each rate is from `num_samples` answers to its problem; with one it is whether the problem was solved. Method 10 of
    R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions based on paired data",
    Statistics in Medicine 17 (1998): the intervals of both means, here by `rate_interval`, joined by the correlation of the
    problems' rates, a positive one with the correction for continuity. Unlike the interval by McNemar's variance it is not
    empty when no problem differs, and stays inside [-1, 1] when all do.

    **Example** 50 problems, 36 solved by both, 12 only after, 2 only before: 0.2 with about (0.057, 0.340).
    """
    n = len(before_P)
    assert n == len(after_P), f"{n} problems before, {len(after_P)} after"
    if n == 0:
        return -1.0, 1.0
    before, after = fmean(before_P), fmean(after_P)
    low_before, high_before = rate_interval(before_P, num_samples=num_samples)
    low_after, high_after = rate_interval(after_P, num_samples=num_samples)
    phi = _correlation(before_P, after_P, n * num_samples)
    below = _join(after - low_after, high_before - before, phi)
    above = _join(high_after - after, before - low_before, phi)
    return max(-1.0, after - before - below), min(1.0, after - before + above)


def _effective_n(rates_P: Sequence[float], num_samples: int) -> float:
    """The number of independent trials whose mean varies as that of these rates."""
    n, mean, variance = len(rates_P), fmean(rates_P), _variance(rates_P)
    most = n * num_samples
    if num_samples == 1 or mean in (0.0, 1.0) or n == 1:
        return n
    unbiased = variance * n / (n - 1)
    return most if unbiased * most <= n * mean * (1 - mean) else n * mean * (1 - mean) / unbiased


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return fmean((value - mean) ** 2 for value in values)


def _join(one: float, other: float, phi: float) -> float:
    """The distance of a difference from its end, by those of both rates from theirs."""
    return sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))


def _correlation(before_P: Sequence[float], after_P: Sequence[float], num_answers: int) -> float:
    """The correlation of the pairs, a positive one with Newcombe's correction for continuity; 0 if either does not vary."""
    scale = sqrt(_variance(before_P) * _variance(after_P))
    if scale == 0:
        return 0.0
    before, after = fmean(before_P), fmean(after_P)
    excess = fmean((one - before) * (other - after) for one, other in zip(before_P, after_P, strict=True))
    if excess > 0:
        excess = max(0.0, excess - 1 / (2 * num_answers))
    return excess / scale
