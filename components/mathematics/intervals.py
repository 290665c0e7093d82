"""Wilson's confidence interval of a rate."""

from math import sqrt

Z_95 = 1.959963984540054
"""The 97.5% quantile of the standard normal distribution."""


def wilson_interval(num_successes: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """The Wilson score interval of a success rate, by default that of 95%; (0, 1) for n = 0.

    Unlike the normal approximation it stays inside [0, 1] and is not empty at 0 or n successes. Source: E. B. Wilson,
    "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).

    **Example** `wilson_interval(8, 10)` is about (0.490, 0.943), with z = 4.2 about (0.236, 0.981); `wilson_interval(0, 100)`
    is about (0, 0.037).
    """
    assert 0 <= num_successes <= n, f"{num_successes} successes in {n} trials"
    return (0.0, 1.0) if n == 0 else score_interval(num_successes / n, n, z)


def score_interval(rate: float, n: float, z: float = Z_95) -> tuple[float, float]:
    """The score interval of a rate among `n` independent trials, which need not be whole.

    **Example** `score_interval(0.8, 10)` is `wilson_interval(8, 10)`.
    """
    spread = z * z / n
    centre = (rate + spread / 2) / (1 + spread)
    half = z * sqrt(rate * (1 - rate) / n + spread / (4 * n)) / (1 + spread)
    return 0.0 if rate == 0 else centre - half, 1.0 if rate == 1 else centre + half
