"""What one run of one arm came to, and what runs of two arms come to beside each other."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.footprint import Footprint
from benchmarks.intervals import mean_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """When a task is learned: at this success, the mean over so many newest samples, drawn on each step's own problems before
    its update."""

    success: float
    window_samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run. `samples_to_goal` is None where the goal was not reached within `num_samples`."""

    arm: str
    round: int
    seed: int
    samples_per_second: float
    tokens_per_second: float
    cpu_seconds: float
    pss_mib: float
    rss_mib: float
    num_processes: int
    num_samples: int
    samples_to_goal: int | None
    last_success: float
    services_pss_mib: float = 0.0
    """Held at its end by the Prefect server that runs beside it, whose processes are in no other number."""

    @property
    def whole_pss_mib(self) -> float:
        """The processes of the run, and the services beside it."""
        return self.pss_mib + self.services_pss_mib

    @property
    def least_samples_to_goal(self) -> int:
        """What it took, or what did not suffice."""
        return self.num_samples if self.samples_to_goal is None else self.samples_to_goal


def outcome(
    arm: str,
    round_number: int,
    seed: int,
    result: Mapping[str, Any],
    footprint: Footprint,
    *,
    goal: Goal,
    services_pss_mib: float = 0.0,
) -> Outcome:
    """The outcome of a run from its own account and what was seen from outside.

    Speed is measured from the end of the first step to the end of the last, and so without start-up.
    """
    ended_at, success_rates, step_samples = result["step_ended_at"], result["success_rates"], result["num_samples"]
    seconds = ended_at[-1] - ended_at[0]
    window = max(1, goal.window_samples // step_samples)
    return Outcome(
        arm=arm,
        round=round_number,
        seed=seed,
        samples_per_second=step_samples * (len(ended_at) - 1) / seconds,
        tokens_per_second=sum(result["num_tokens"][1:]) / seconds,
        cpu_seconds=footprint.cpu_seconds,
        pss_mib=footprint.pss_mib,
        rss_mib=footprint.rss_mib,
        num_processes=footprint.num_processes,
        num_samples=step_samples * len(ended_at),
        samples_to_goal=samples_to_goal(success_rates, step_samples, window=window, goal=goal.success),
        last_success=statistics.mean(success_rates[-window:]),
        services_pss_mib=services_pss_mib,
    )


def samples_to_goal(success_rates: Sequence[float], step_samples: int, *, window: int, goal: float) -> int | None:
    """Samples drawn when the mean success of the newest `window` steps first reaches `goal`, or None.

    **Example** rates .8, .9, .9, .9 of 256 samples each, window 2, goal .9: the third step's mean is .9, so 768.
    """
    for end in range(window, len(success_rates) + 1):
        if statistics.mean(success_rates[end - window : end]) >= goal - 1e-12:
            return end * step_samples
    return None


def median_ratio(ours: Sequence[Outcome], theirs: Sequence[Outcome], field: str) -> float:
    """The median over rounds of ours over theirs of the same round."""
    pairs = zip(by_round(ours), by_round(theirs), strict=True)
    return statistics.median(float(getattr(one, field) / getattr(other, field)) for one, other in pairs)


def goal_ratio(ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> tuple[float, float, float]:
    """The geometric mean over seeds of our samples to the goal over theirs, and its 95% interval by Student's t.

    A run that did not reach it enters with all its samples: too few, so the other side is then favoured.
    """
    pairs = zip(by_round(ours), by_round(theirs), strict=True)
    logs = [math.log(one.least_samples_to_goal / other.least_samples_to_goal) for one, other in pairs]
    mean, half = mean_interval(logs)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def mean_by_step(values_R_S: Sequence[Sequence[float]]) -> list[float]:
    """The mean over runs of what each has by step."""
    return [statistics.mean(step) for step in zip(*values_R_S, strict=True)]


def by_round(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """In the order of rounds, whichever way they were interleaved."""
    return sorted(outcomes, key=lambda each: each.round)
