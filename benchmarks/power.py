"""What a paired comparison over few seeds shows, and what it could have seen."""

import math
import statistics
from collections.abc import Sequence
from functools import cache

from scipy.optimize import brentq
from scipy.stats import nct, t

LEVEL = 0.05
"""Two-sided."""
POWER = 0.8


def compute_paired_p_value(differences: Sequence[float]) -> float:
    """That of the paired t-test, two-sided: the probability of differences as far from 0 if the true mean is 0; 1 for fewer
    than two, which no test can use.

    **Example** differences (1, 2, 3): t = 3.46 with 2 degrees of freedom, p = .074.
    """
    if len(differences) < 2:
        return 1.0
    mean, error = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(len(differences))
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * float(t.sf(abs(mean) / error, len(differences) - 1))


def detectable_difference(differences: Sequence[float]) -> float:
    """The smallest true mean difference that as many pairs find with 80% power at the 5% level, two-sided.

    With n differences of standard deviation s, the t statistic under a true mean d follows the noncentral t distribution with
    n - 1 degrees of freedom and noncentrality d * sqrt(n) / s. The result is the d at which it lies beyond the two critical
    values with probability 0.8; s is the observed one, itself uncertain with few seeds. NaN for fewer than two.

    **Example** differences (1, 2, 3): s = 1, n = 3, noncentrality 5.6 and d = 3.3.
    """
    if len(differences) < 2:
        return math.nan
    return noncentrality(len(differences)) * statistics.stdev(differences) / math.sqrt(len(differences))


@cache
def noncentrality(num_pairs: int) -> float:
    """The noncentrality at which a paired t-test of so many pairs has the wanted power."""
    freedom = num_pairs - 1
    critical = float(t.ppf(1 - LEVEL / 2, freedom))

    def lacking(value: float) -> float:
        # The other tail holds less than 1e-4 where this one holds 0.8.
        return float(nct.sf(critical, freedom, value)) - POWER

    return float(brentq(lacking, 0.1, 100.0))
