"""The confidence intervals of a success rate, and of the difference of two on the same problems."""

from collections.abc import Sequence
from math import sqrt

_Z_95 = 1.959963984540054
"""The 97.5% quantile of the standard normal distribution."""


def wilson_interval(num_successes: int, n: int) -> tuple[float, float]:
    """The 95% Wilson score interval of a success rate; (0, 1) for n = 0.

    Unlike the normal approximation it stays inside [0, 1] and is not empty at 0 or n successes. Source: E. B. Wilson,
    "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).

    **Example** `wilson_interval(8, 10)` is about (0.490, 0.943); `wilson_interval(0, 100)` is about (0, 0.037).
    """
    assert 0 <= num_successes <= n, f"{num_successes} successes in {n} trials"
    if n == 0:
        return 0.0, 1.0
    rate, spread = num_successes / n, _Z_95**2 / n
    centre = (rate + spread / 2) / (1 + spread)
    half = _Z_95 * sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    low = 0.0 if num_successes == 0 else centre - half
    high = 1.0 if num_successes == n else centre + half
    return low, high


def paired_interval(before_P: Sequence[bool], after_P: Sequence[bool]) -> tuple[float, float]:
    """The 95% interval of the success rate after less that before, on the same problems in the same order; (-1, 1) for none.

    Method 10 of R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions based on paired
    data", Statistics in Medicine 17 (1998): the Wilson intervals of both rates, joined by the correlation of the pairs. Unlike
    the interval by McNemar's variance it is not empty when no problem differs, and stays inside [-1, 1] when all do.

    **Example** 50 problems, 36 solved by both, 12 only after, 2 only before: 0.2 with about (0.057, 0.340).
    """
    n = len(before_P)
    assert n == len(after_P), f"{n} problems before, {len(after_P)} after"
    if n == 0:
        return -1.0, 1.0
    pairs = list(zip(before_P, after_P, strict=True))
    both, neither = pairs.count((True, True)), pairs.count((False, False))
    lost, won = pairs.count((True, False)), pairs.count((False, True))
    before, after = (both + lost) / n, (both + won) / n
    low_before, high_before = wilson_interval(both + lost, n)
    low_after, high_after = wilson_interval(both + won, n)
    phi = _correlation(both, lost, won, neither)
    below = _joined(after - low_after, high_before - before, phi)
    above = _joined(high_after - after, before - low_before, phi)
    difference = (won - lost) / n
    return max(-1.0, difference - below), min(1.0, difference + above)


def _joined(one: float, other: float, phi: float) -> float:
    """The distance of a difference from its end, by those of both rates from theirs."""
    return sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))


def _correlation(both: int, lost: int, won: int, neither: int) -> float:
    """The correlation of the pairs, a positive one with Newcombe's correction for continuity; 0 if a rate is 0 or 1."""
    scale = sqrt((both + lost) * (won + neither) * (both + won) * (lost + neither))
    if scale == 0:
        return 0.0
    excess = float(both * neither - lost * won)
    if excess > 0:
        excess = max(0.0, excess - (both + lost + won + neither) / 2)
    return excess / scale
