"""Several subjects on the same problems with the same draws: a report of each, and each one's difference from the first."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from components.errors import ConfigurationError
from components.evaluation.comparison import NonInferiority, PairedComparison, compare_pairs, non_inferiority
from components.evaluation.outcomes import SuiteOutcomes
from components.frozen import Frozen
from components.runs.history import Progress
from troupe.teams.evaluation import evaluate
from troupe.teams.reports import EvaluationReport
from troupe.teams.run_team import named_step


class ComparisonReport(Frozen):
    """`reports` of all subjects, the base first, and the paired difference of each other one; with a margin also its gate."""

    seed: int
    reports: tuple[EvaluationReport, ...]
    comparisons: tuple[PairedComparison, ...]
    gates: tuple[NonInferiority, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether no subject may be worse than the base by more than the margin."""
        return all(gate.passes for gate in self.gates)

    def lines(self) -> Iterator[str]:
        """The report as text."""
        base = self.reports[0]
        width = max(len(report.agent) for report in self.reports)
        yield f"{base.suite}, {base.drawn}, {base.n} problems, seed {self.seed}"
        yield f"{'':{width}}  success  95% interval   mean reward  keeps good  repairs bad"
        for report in self.reports:
            low, high = report.interval
            shares = (f"{share:.2f}" if share is not None else "-" for share in (report.keep_rate, report.repair_rate))
            kept, repaired = shares
            yield (
                f"{report.agent:{width}}  {report.success_rate:7.3f}  {low:.3f} to {high:.3f}  {report.mean_reward:11.3f}"
                f"  {kept:>10}  {repaired:>11}"
            )
        for number, pair in enumerate(self.comparisons):
            low, high = pair.interval
            yield (
                f"{pair.other} less {pair.base}: {pair.difference:+.3f}, 95% interval {low:+.3f} to {high:+.3f}; better at "
                f"{pair.num_won} problems, worse at {pair.num_lost}; so many problems show a difference of "
                f"{pair.smallest_difference:.3f}"
            )
            if self.gates:
                yield f"    {self.gates[number].sentence}"


def compare(
    subjects: Sequence[str],
    suite: str | None = None,
    *,
    margin: float | None = None,
    seed: int = 0,
    store: str | None = None,
    progress: Progress = lambda done, total: None,
    **wanted: Any,
) -> ComparisonReport:
    """The report of `subjects`: runs as RUN or RUN@STEP, models, "expert", "random" or "noop"; the first is the base.

    `wanted` and the other arguments are those of `evaluate`. With `margin` each subject gets a gate: it passes if the lower
    bound of its paired difference is not below -margin. Raises ConfigurationError, also where the problems of two subjects
    differ.
    """
    if len(subjects) < 2:
        raise ConfigurationError(f"compare {' '.join(subjects)}: name at least two subjects, the base first")
    if margin is not None and not 0 < margin < 1:
        raise ConfigurationError(f"--fail-below {margin}: give the largest loss of success that is allowed, as 0.02")
    reports = []
    for number, subject in enumerate(subjects):
        name, step = (subject, None) if "/" in subject else named_step(subject, argument="compare")
        reports.append(
            evaluate(
                name,
                suite,
                step=step,
                seed=seed,
                store=store,
                progress=partial(_told, progress, number, len(subjects)),
                **wanted,
            )
        )
    outcomes = [_outcomes(report, seed) for report in reports]
    try:
        pairs = tuple(compare_pairs(outcomes[0], other) for other in outcomes[1:])
    except ValueError as error:
        raise ConfigurationError(f"{error}: name what all of them play, as --suite plan_path") from error
    gates = () if margin is None else tuple(non_inferiority(pair, margin) for pair in pairs)
    return ComparisonReport(seed=seed, reports=tuple(reports), comparisons=pairs, gates=gates)


def _told(progress: Progress, num_finished: int, num_subjects: int, done: int, total: int) -> None:
    """Tell how many problems of all subjects are done."""
    progress(num_finished * total + done, num_subjects * total)


def _outcomes(report: EvaluationReport, seed: int) -> SuiteOutcomes:
    return SuiteOutcomes(
        subject=report.agent,
        seed=seed,
        problems_P=report.problems_P,
        solved_P_K=tuple((solved,) for solved in report.solved_P),
    )
