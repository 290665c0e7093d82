"""Several subjects on the same problems with the same draws: a report of each, and each one's difference from the first."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from components import metrics
from components.config.hybrid import GAME_BOY
from components.errors import ConfigurationError
from components.evaluation.comparison import (
    NonInferiority,
    PairedComparison,
    PayoffDifference,
    compare_pairs,
    non_inferiority,
    payoff_differences,
)
from components.runs.history import Progress
from components.schema import EvalReport
from troupe.teams.evaluation import evaluate
from troupe.teams.reports import describe_sampling, evaluation_document


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonReport:
    """`reports` of all subjects, the base first, and the paired difference of each other one; with a margin also its gate."""

    seed: int
    reports: tuple[EvalReport, ...]
    comparisons: tuple[PairedComparison, ...]
    gates: tuple[NonInferiority, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether no subject may be worse than the base by more than the margin."""
        return all(gate.passes for gate in self.gates)

    def document(self) -> dict[str, Any]:
        """The report as plain JSON for programs."""
        return {
            "seed": self.seed,
            "reports": [evaluation_document(report) for report in self.reports],
            "comparisons": [asdict(pair) for pair in self.comparisons],
            "payoffs": [
                [asdict(each) for each in payoff_differences(self.reports[0], other)] for other in self.reports[1:]
            ],
            "gates": [asdict(gate) for gate in self.gates],
        }

    def lines(self) -> Iterator[str]:
        """The report as text."""
        base = self.reports[0]
        width = max(len(report.agent) for report in self.reports)
        samples = "" if base.num_samples == 1 else f", {base.num_samples} samples each"
        how = next((report for report in self.reports if report.sampling != "scripted"), base)
        yield f"{base.suite} {base.suite_digest}, {describe_sampling(how)}, {base.n} problems{samples}, seed {self.seed}"
        paid = paid_agents(self.reports)
        earned = [max(len(title), 11) for title in paid]
        titles = "".join(f"  {title:>{room}}" for title, room in zip(paid, earned, strict=True))
        yield f"{'':{width}}  success  95% interval  {titles}  keeps good  repairs bad   tokens  seconds    cost"
        for report in self.reports:
            low, high = report.interval
            kept, repaired, tokens, seconds, cost = format_kept_and_spent(report)
            values = earnings(report, paid).values()
            cells = "".join(f"  {value:>{room}}" for value, room in zip(values, earned, strict=True))
            yield (
                f"{report.agent:{width}}  {report.success_rate:7.3f}  {low:.3f} to {high:.3f}{cells}"
                f"  {kept:>10}  {repaired:>11}  {tokens:>7}  {seconds:>7}  {cost:>6}"
            )
        for number, pair in enumerate(self.comparisons):
            low, high = pair.interval
            yield (
                f"{pair.other} less {pair.base}: {pair.difference:+.3f}, 95% interval {low:+.3f} to {high:+.3f}; better at "
                f"{pair.num_won} problems, worse at {pair.num_lost}; a true difference under {pair.smallest_difference:.3f} "
                f"can stay unnoticed on {pair.num_problems} problems"
            )
            yield from payoff_lines(payoff_differences(self.reports[0], self.reports[number + 1]))
            if self.gates:
                yield f"    {self.gates[number].sentence}"


def paid_agents(reports: Sequence[EvalReport]) -> list[str]:
    """The titles of what is earned: "mean reward", or in a game that pays several players "pays ann", "pays bob"."""
    agents = dict.fromkeys(agent for report in reports for agent in metrics.payoffs(report.metrics))
    return [f"pays {agent}" for agent in agents] if len(agents) > 1 else ["mean reward"]


def earnings(report: EvalReport, titles: Sequence[str]) -> dict[str, str]:
    """What stands under these titles; "-" where nothing is known of a player. **Example** {"pays ann": "0.520"}."""
    if len(titles) == 1:
        return {titles[0]: f"{report.mean_reward:.3f}"}
    paid = {f"pays {agent}": f"{payoff:.3f}" for agent, payoff in metrics.payoffs(report.metrics).items()}
    return {title: paid.get(title, "-") for title in titles}


def payoff_lines(differences: Sequence[PayoffDifference]) -> Iterator[str]:
    """**Example** "    player_0 earns +0.120 an episode, 95% interval +0.031 to +0.209"."""
    for each in differences:
        low, high = each.interval
        yield f"    {each.agent} earns {each.difference:+.3f} an episode, 95% interval {low:+.3f} to {high:+.3f}"


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
        told = partial(_report_progress, progress, number, len(subjects))
        reports.append(evaluate(subject, suite, seed=seed, store=store, progress=told, **wanted))
    try:
        pairs = tuple(compare_pairs(reports[0], other) for other in reports[1:])
    except ValueError as error:
        remedy = "name what all of them play, as --suite plan_path"
        if all(each.suite.startswith(f"{GAME_BOY}/") for each in reports):
            remedy = "let all of them play the same games, as --problems 100 --set method.game=homebrew"
        raise ConfigurationError(f"{error}: {remedy}") from error
    gates = () if margin is None else tuple(non_inferiority(pair, margin) for pair in pairs)
    return ComparisonReport(seed=seed, reports=tuple(reports), comparisons=pairs, gates=gates)


def _report_progress(progress: Progress, num_finished: int, num_subjects: int, done: int, total: int) -> None:
    """Tell how many problems of all subjects are done."""
    progress(num_finished * total + done, num_subjects * total)


def format_kept_and_spent(report: EvalReport) -> tuple[str, str, str, str, str]:
    """How often the last agent keeps and repairs, and tokens, seconds and cost of the play; "-" for none.

    **Example** ("0.90", "0.00", "955", "8.2", "-").
    """
    values = report.metrics
    kept, repaired = (f"{share:.2f}" if share is not None else "-" for share in (report.keep_rate, report.repair_rate))
    cost = sum(value for name, value in values.items() if name.endswith("/cost"))
    tokens = values.get(metrics.evaluation(report.sampling, "num_generated_tokens"), 0.0)
    seconds = values.get(metrics.evaluation(report.sampling, "seconds"), 0.0)
    return kept, repaired, f"{tokens:.0f}" if tokens else "-", f"{seconds:.1f}", f"{cost:.4g}" if cost else "-"
