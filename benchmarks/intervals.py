"""Intervals of a mean over few runs, and what remains of several tests."""

import math
import statistics
from collections.abc import Sequence

STUDENT_T = {
    2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 11: 2.228, 12: 2.201, 13: 2.179,
    14: 2.160, 15: 2.145, 16: 2.131, 17: 2.120, 18: 2.110, 19: 2.101, 20: 2.093,
}  # fmt: skip
"""Two-sided 95% quantiles by the number of values."""


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean and half the width of its 95% interval by Student's t; a bootstrap of so few values would be too narrow.

    **Example** 0.5, 0.6, 0.7: 0.6 and 4.303 * 0.1 / sqrt(3) = 0.248. NaN for a number of values without a quantile.
    """
    if len(values) not in STUDENT_T:
        return statistics.mean(values), math.nan
    return statistics.mean(values), STUDENT_T[len(values)] * statistics.stdev(values) / math.sqrt(len(values))


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """Each p-value corrected for their number: rejecting those below a level errs once or more with at most that probability.

    From the smallest on, each is multiplied by the number of those not yet passed, and is at least the one before it (S. Holm,
    "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979).

    **Example** .04, .01, .02: .04, .03, .04.
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for passed, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - passed) * p_values[index]))
        adjusted[index] = largest
    return adjusted
