"""Metric names and values of a report, the same for every tracker."""

from components.metrics import STEP_SECONDS, evaluation
from components.schema import EvalReport, IterationReport


def read_iteration_points(report: IterationReport) -> dict[str, float]:
    """The metrics and the timings of one step, by name; with the seconds of all stages.

    **Example** 2 s of rollouts and 1 s of updates give `time/step_seconds` 3.
    """
    points = {**report.metrics, **report.timings}
    if report.timings:
        points[STEP_SECONDS] = sum(report.timings.values())
    return points


def read_evaluation_points(report: EvalReport) -> dict[str, float]:
    """A held-out evaluation as `eval/<sampling>_success_rate` and `eval/<sampling>/<name>`; rates that are None are left out.

    **Example** 30 of 40 problems under sampling "greedy" give `eval/greedy_success_rate` 0.75, `eval/greedy/n` 40,
    `eval/greedy/interval_low` 0.598 and `eval/greedy/interval_high` 0.858.
    """
    low, high = report.interval
    values: dict[str, float | None] = {
        "n": report.n,
        "num_successes": report.num_successes,
        "success_rate": report.success_rate,
        "interval_low": low,
        "interval_high": high,
        "mean_reward": report.mean_reward,
        "keep_rate": report.keep_rate,
        "repair_rate": report.repair_rate,
    }
    named = {evaluation(report.sampling, name): float(value) for name, value in values.items() if value is not None}
    return {**report.metrics, **named}


def read_evaluation_rows(report: EvalReport) -> dict[str, list[object]]:
    """A table of the problems in their order: `problem`, and how many of its episodes succeed, `solved`."""
    return {"problem": list(range(report.n)), "solved": list(report.num_solved_P)}
