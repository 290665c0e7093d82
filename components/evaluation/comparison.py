"""Two subjects on the same problems and seeds: the paired difference, what could have been seen, and a gate on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt
from statistics import fmean, stdev

from components.evaluation.statistics import compute_paired_interval
from components.mathematics.intervals import Z_95
from components.schema import EvalReport

_Z_POWER = 0.8416212335729143
"""The 80% quantile of the standard normal distribution."""
_FEWEST_PROBLEMS = 4
"""With fewer no difference can be shown with this power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedComparison:
    """The success of `other` less that of `base`, by problem. A problem is won if `other` solves it more often."""

    base: str
    other: str
    num_problems: int
    num_samples: int
    base_rate: float
    other_rate: float
    num_won: int
    num_lost: int
    difference: float
    interval: tuple[float, float]
    """95%."""
    smallest_difference: float
    """The smallest true difference that as many problems show in 80% of repetitions."""
    spread: float
    """The mean square of a problem's difference, with one more problem that differs fully and one that does not: if none
    differs here, some may yet. With one sample it is about the rate of problems that differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoffDifference:
    """What an agent earns an episode more where it is `other` that plays, and the 95% interval over problems."""

    agent: str
    difference: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NonInferiority:
    """Whether a subject is at most `margin` worse than another: so if the whole interval says it."""

    margin: float
    lower_bound: float
    """Of the 95% interval of the difference."""
    passes: bool
    num_problems: int
    num_problems_needed: int
    """With which an equal subject passes in 80% of repetitions."""

    @property
    def sentence(self) -> str:
        """**Example** "fails: the difference may be as low as -0.041, below -0.02; an equal subject needs about 1570 problems
        to pass, here are 100"."""
        allowed = "within" if self.passes else "below"
        told = f"the difference may be as low as {self.lower_bound:+.3f}, {allowed} -{self.margin:g}"
        if self.passes:
            return f"passes: {told}"
        return (
            f"fails: {told}; an equal subject needs about {self.num_problems_needed} problems to pass, "
            f"here are {self.num_problems}"
        )


def compare_pairs(base: EvalReport, other: EvalReport) -> PairedComparison:
    """The paired comparison of two subjects. Raises ValueError, naming the first difference, unless suite, seed, sampling and
    the number of samples are equal; a scripted subject pairs with any sampling.

    **Example** 50 problems, 36 solved by both, 12 only by `other`, 2 only by `base`: the difference is 0.2, its interval 0.057
    to 0.340, and as many problems show a difference of 0.21.
    """
    _check_comparable(base, other)
    differences_P = [after - before for before, after in zip(base.rates_P, other.rates_P, strict=True)]
    n = len(differences_P)
    spread = (sum(difference**2 for difference in differences_P) + 1) / (n + 2)
    return PairedComparison(
        base=base.agent,
        other=other.agent,
        num_problems=n,
        num_samples=base.num_samples,
        base_rate=fmean(base.rates_P),
        other_rate=fmean(other.rates_P),
        num_won=sum(difference > 0 for difference in differences_P),
        num_lost=sum(difference < 0 for difference in differences_P),
        difference=fmean(differences_P),
        interval=compute_paired_interval(base.rates_P, other.rates_P, num_samples=base.num_samples),
        smallest_difference=smallest_difference(n, spread),
        spread=spread,
    )


def payoff_differences(base: EvalReport, other: EvalReport) -> tuple[PayoffDifference, ...]:
    """The paired differences of the agents' payoffs; none in games without. The reports are a pair, as for `compare_pairs`.

    **Example** an agent earns (1, 0, 1) and (1, 1, 1): +.333, by the normal interval -.320 to +.987.
    """
    before, after = base.payoffs_P or {}, other.payoffs_P or {}
    return tuple(
        payoff_difference(agent, before[agent], after[agent]) for agent in sorted(before.keys() & after.keys())
    )


def payoff_difference(agent: str, before_P: Sequence[float], after_P: Sequence[float]) -> PayoffDifference:
    """What an agent earns more, paired by problem."""
    differences_P = [after - before for before, after in zip(before_P, after_P, strict=True)]
    mean = fmean(differences_P)
    half = Z_95 * stdev(differences_P) / sqrt(len(differences_P)) if len(differences_P) > 1 else inf
    return PayoffDifference(agent=agent, difference=mean, interval=(mean - half, mean + half))


def smallest_difference(num_problems: int, spread: float) -> float:
    """The smallest true difference that so many pairs show at the 5% level, two-sided, with 80% power; at most 1.

    The d that solves `d sqrt(n) = 1.96 sqrt(spread) + 0.84 sqrt(spread - d^2)`: R. J. Connor, "Sample size for testing
    differences in proportions for the paired-sample design", Biometrics 43 (1987), solved for the difference. `spread` is the
    mean square of a pair's difference.

    **Example** 200 problems of which 15% differ: 0.076; 1000: 0.034.
    """
    if num_problems < _FEWEST_PROBLEMS:
        return 1.0
    root = Z_95 * sqrt(num_problems) + _Z_POWER * sqrt(num_problems - Z_95**2 + _Z_POWER**2)
    return min(1.0, sqrt(spread) * root / (num_problems + _Z_POWER**2))


def non_inferiority(comparison: PairedComparison, margin: float) -> NonInferiority:
    """The gate: it passes if the lower bound of the 95% interval is not below `-margin`.

    The bound, not the estimate: few problems then fail instead of passing for want of evidence. Raises ValueError unless the
    margin is above 0 and below 1.

    **Example** `margin` 0.02 and 15% of the problems differ: an equal subject needs about 2,944 problems.
    """
    if not 0 < margin < 1:
        raise ValueError(f"margin {margin}: give the largest loss of success that is allowed, as 0.02")
    low = comparison.interval[0]
    return NonInferiority(
        margin=margin,
        lower_bound=low,
        passes=low >= -margin,
        num_problems=comparison.num_problems,
        num_problems_needed=ceil(comparison.spread * ((Z_95 + _Z_POWER) / margin) ** 2),
    )


def _check_comparable(base: EvalReport, other: EvalReport) -> None:
    samplings = {base.sampling, other.sampling} - {"scripted"}
    for name, one, two in (
        ("number of samples", base.num_samples, other.num_samples),
        ("number of problems", base.n, other.n),
        ("suite", f"{base.suite} {base.suite_digest}", f"{other.suite} {other.suite_digest}"),
        ("seed", base.seed, other.seed),
        ("sampling", *((base.sampling, other.sampling) if len(samplings) > 1 else ("", ""))),
    ):
        if one != two:
            raise ValueError(
                f"{base.agent} and {other.agent} are no pair: the {name} is {one} and {two}; evaluate both alike"
            )
