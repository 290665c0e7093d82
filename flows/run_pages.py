"""A training's numbers in the log and among the artifacts of its flow run in Prefect."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.exceptions import PrefectException

from components import metrics as m
from components.evaluation.statistics import compute_paired_interval
from components.reporting.progress import Progress
from components.schema import EvalReport
from components.text.escaping import markdown_cell

_log = logging.getLogger(__name__)
Logger = logging.Logger | logging.LoggerAdapter[Any]


class RunPages:
    """Writes what it hears of a run's progress to the log of its flow run, and links the run's page in MLflow once.

    `view` is the command that shows what was said in the run.
    """

    def __init__(self, run_id: str, logger: Logger, *, view: str) -> None:
        self._run_id = run_id
        self._view = view
        self._logger = logger
        self._has_link = False

    def hear(self, progress: Progress) -> None:
        """A listener for `components.reporting.progress`."""
        if progress.stage == "iteration":
            self._logger.info("%s", step_line(progress))
        elif progress.stage == "evaluated":
            self._logger.info("%s", evaluation_line(progress.facts["report"]))
        elif progress.stage == "gains":
            for line in progress.facts["lines"]:
                self._logger.info("%s", line)
        elif progress.stage == "links":
            self._link(progress.facts.get("MLflow"))

    def end(self, summary: Mapping[str, Any]) -> None:
        """Log the gain of the summary, and create its page."""
        self._link(summary["run_url"])  # MLflow may have answered only now
        for line in gain_lines(summary["evaluations"]):
            self._logger.info("%s", line)
        page, key = summary_page(summary), artifact_key("run", self._run_id)
        _unless_away(
            lambda: create_markdown_artifact(markdown=page, key=key, description=f"{self._run_id}, the whole run")
        )

    def _link(self, url: str | None) -> None:
        if url is None or self._has_link:
            return
        self._has_link, key = True, artifact_key("mlflow", self._run_id)
        about = f"Metrics, evaluations and traces. What each agent saw and wrote: `{self._view}`"
        _unless_away(lambda: create_link_artifact(link=url, link_text="The run in MLflow", key=key, description=about))


def step_line(progress: Progress) -> str:
    """**Example** "step 6 (7 of 100): success 0.312, reward plan_agent 0.250, reward tool_agent 0.125, 12.3 s"."""
    metrics: Mapping[str, float] = progress.facts["metrics"]
    rewards = sorted(m.earning_names(metrics))
    figures = [f"success {metrics[m.SUCCESS_RATE]:.3f}"] if m.SUCCESS_RATE in metrics else []
    figures += [f"{m.earning_label(name)} {metrics[name]:.3f}" for name in rewards]
    seconds = sum(progress.facts["timings"].values())
    return (
        f"step {progress.step} ({progress.done:g} of {progress.total:g}): {', '.join([*figures, f'{seconds:.1f} s'])}"
    )


def evaluation_line(report: EvalReport) -> str:
    """**Example** "held-out success after 100 steps, greedy: 0.734 (0.694 to 0.771, n 500)"."""
    low, high = report.interval
    return (
        f"held-out success after {report.step} steps, {report.sampling}: {report.success_rate:.3f} "
        f"({low:.3f} to {high:.3f}, n {report.n})"
    )


def gain_lines(evaluations: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each way of sampling, from the first evaluation to the last, of the summary's `evaluations`: of success, or of
    payoffs where success says nothing.

    **Example** "gain, greedy: 0.546 -> 0.768 (+0.222, 95% interval +0.181 to +0.262)". The interval is paired by problem.
    """
    lines = []
    for sampling in dict.fromkeys(each["sampling"] for each in evaluations):
        reports = [each for each in evaluations if each["sampling"] == sampling]
        before, after = reports[0], reports[-1]
        if m.tells_payoffs_alone([before, after]):
            lines.append(f"payoffs, {sampling}: {m.payoff_courses(before, after)}")
            continue
        interval = ""
        if before["step"] != after["step"] and before["suite_digest"] == after["suite_digest"]:
            low, high = compute_paired_interval(before["num_solved_P"], after["num_solved_P"])
            interval = f", 95% interval {low:+.3f} to {high:+.3f}"
        gain = after["success_rate"] - before["success_rate"]
        lines.append(
            f"gain, {sampling}: {before['success_rate']:.3f} -> {after['success_rate']:.3f} ({gain:+.3f}{interval})"
        )
    return lines


def summary_page(summary: Mapping[str, Any]) -> str:
    """A Markdown page for the whole run: gain, evaluations, checkpoints, and the next commands."""
    run_id, option = summary["run_id"], summary["store_option"]
    lines = [f"# {run_id}", "", f"{summary['num_steps']} steps, {summary['seconds']:.0f} s in this process", ""]
    if summary["run_url"]:
        lines += [f"[The run in MLflow]({summary['run_url']})", ""]
    lines += [f"- {line}" for line in gain_lines(summary["evaluations"])]
    lines += [
        "",
        "## Held-out play",
        "",
        "| step | sampling | success | 95% interval | n |",
        "|---:|---|---:|---|---:|",
    ]
    for each in summary["evaluations"]:
        low, high = each["interval"]
        lines.append(
            f"| {each['step']} | {each['sampling']} | {each['success_rate']:.3f} | {low:.3f} to {high:.3f} | {each['n']} |"
        )
    lines += ["", "## Checkpoints", "", "| policy | weights |", "|---|---|"]
    lines += [
        f"| {markdown_cell(policy)} | `{digest[:16]}` |" for policy, digest in summary["checkpoint_digest"].items()
    ]
    return "\n".join([*lines, "", f"`troupe show {run_id}{option}`, `troupe view {run_id}{option}`"])


def artifact_key(kind: str, run_id: str) -> str:
    """A key of Prefect's artifacts, which hold lower-case letters, digits and dashes. **Example** "run-my-run"."""
    return f"{kind}-{re.sub('[^a-z0-9-]', '-', run_id)}"


def _unless_away(create: Callable[[], object]) -> None:
    """Create a page; a server that is away costs the page, not the run."""
    try:
        create()
    except (httpx.HTTPError, PrefectException) as error:
        _log.warning("a page of the run is missing in Prefect: %s", error)
