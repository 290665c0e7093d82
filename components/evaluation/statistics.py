"""The confidence interval of a success rate."""

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
