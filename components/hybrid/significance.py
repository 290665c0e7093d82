"""Is a rate among a few draws too far from the rate of the whole? Exact, and with Wilson's bounds to show.

A z-score is not enough here. The level of one test among thousands is about 1e-5, and that far out the normal curve is wrong:
with a rate of .05 and 20 trials, 6 successes exceed Wilson's lower bound at 1.3e-5 but have a probability of 3.3e-4, so that
random play would show patterns. Fisher's exact test has no such gap.
"""

from math import exp, lgamma, sqrt


def wilson_bounds(successes: int, trials: int, z: float) -> tuple[float, float]:
    """The lower and upper Wilson score bound of a success rate at the quantile `z`; (0, 1) without trials.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).

    **Example** `wilson_bounds(8, 10, 1.96)` is about (.490, .943); with z = 4.2 it is about (.236, .981).
    """
    assert 0 <= successes <= trials, f"{successes} successes in {trials} trials"
    if trials == 0:
        return 0.0, 1.0
    rate, spread = successes / trials, z * z / trials
    centre = (rate + spread / 2) / (1 + spread)
    half = z * sqrt(rate * (1 - rate) / trials + spread / (4 * trials)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def chance_of_at_least(successes: int, drawn: int, all_successes: int, population: int) -> float:
    """The probability that `drawn` of `population` trials, drawn at random, hold `successes` or more of `all_successes`.

    The upper tail of the hypergeometric distribution: the one-sided exact test of a 2 x 2 table (R. A. Fisher, "The logic of
    inductive inference", 1935). It needs no estimate of the rate, so that it holds for small histories, too.

    **Example** 4 of 4 draws succeed where 5 of 10 trials do: 5/10 * 4/9 * 3/8 * 2/7 = 1/42, about .0238.
    """
    assert 0 <= drawn <= population, f"{drawn} drawn of {population}"
    assert 0 <= all_successes <= population, f"{all_successes} successes in {population}"
    failures = population - all_successes
    count = max(successes, drawn - failures)
    if successes <= max(0, drawn - failures):
        return 1.0
    most = min(drawn, all_successes)
    if successes > most:
        return 0.0
    term = exp(
        _log_choices(all_successes, count) + _log_choices(failures, drawn - count) - _log_choices(population, drawn)
    )
    total = 0.0
    while count <= most:
        total += term
        term *= (all_successes - count) * (drawn - count) / ((count + 1) * (failures - drawn + count + 1))
        count += 1
    return min(1.0, total)


def _log_choices(n: int, k: int) -> float:
    """The logarithm of n over k."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
