"""The report at the end of a training."""

from collections.abc import Mapping
from html import escape
from typing import Any

from rich.console import Console
from rich.text import Text

from components import metrics
from components.evaluation.statistics import compute_paired_interval
from components.frozen import Frozen
from components.schema import EvalReport
from components.session.stores import s3_endpoint
from components.tracking.pages import list_url
from troupe.runs.tables import evaluations_table, follows_proposals, share


class TrainingReport(Frozen):
    """The result of a training.

    `evaluations` is held-out play for each way of sampling, first before training and last after it; `checkpoint_digest` is the
    digest of each policy's final weights; `seconds` counts this process; the URLs are the run's pages in MLflow and Prefect.
    """

    run_id: str
    num_steps: int
    evaluations: tuple[EvalReport, ...]
    checkpoint_digest: Mapping[str, str]
    seconds: float
    run_url: str | None
    flow_run_url: str | None

    def __str__(self) -> str:
        return "\n".join([f"{self.run_id}: {self.num_steps} steps, {self.seconds:.0f} s", *map(str, self.evaluations)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def print_summary(console: Console, summary: dict[str, Any], *, is_alone: bool = False) -> None:
    """Print the evaluations, the gain, the agents' shares, the addresses and the next commands.

    `is_alone`: no services are up.
    """
    run_id, option, evaluations = summary["run_id"], summary["store_option"], summary["evaluations"]
    console.print()
    for sampling in dict.fromkeys(report["sampling"] for report in evaluations):
        reports = [report for report in evaluations if report["sampling"] == sampling]
        console.print(gain_line(reports[0], reports[-1]))
    console.print()
    console.print(evaluations_table(evaluations))
    console.print(
        f"\n{summary['num_steps']} step{'' if summary['num_steps'] == 1 else 's'}, {summary['seconds']:.0f} s in this process; "
        f"checkpoint {' '.join(digest[:12] for digest in summary['checkpoint_digest'].values())}"
    )
    for policy, used in summary["api_usage"].items():
        console.print(
            f"{policy}: {used['num_requests']:.0f} requests, {used['num_prompt_tokens']:.0f} prompt tokens, "
            f"{used['num_answer_tokens']:.0f} answer tokens, cost {used['cost']:g}"
        )
    if summary["num_unpublished"]:
        away = "; after `troupe up` " if is_alone else ", which does not answer; "
        told = f"wait for MLflow{away}`troupe resume {run_id}{option}` publishes them"
        if summary["refusal"]:
            told = f"are in the store and not in MLflow, which refuses them: {summary['refusal']}"
        console.print(f"{summary['num_unpublished']} reports {told}", style="yellow")
    mlflow = summary["run_url"]
    places = {
        "MLflow": mlflow,
        "all runs": mlflow and list_url(mlflow),
        "Prefect": summary["flow_run_url"],
        "S3": s3_endpoint(),
        "Graph": summary["graph_command"],
    }
    for number, (name, address) in enumerate((name, address) for name, address in places.items() if address):
        console.print(f"{'' if number else chr(10)}{name:8} {address}", soft_wrap=True)
    services = "up" if is_alone else "down"
    console.print(f"\nnext: troupe show {run_id}{option}   |   troupe runs{option}   |   troupe {services}")


def gain_line(before: dict[str, Any], after: dict[str, Any]) -> Text:
    """**Example** "held-out success, greedy  0.546 -> 0.768 (+0.222, 95% interval +0.181 to +0.262)", then what each agent
    earned in a game of payoffs, or the last agent's contribution to a team. The interval is paired by problem. Of a game in
    which success says nothing: "held-out payoffs, sample  ann 0.030 -> 0.000, bob -0.030 -> 0.000"."""
    gain, detail = after["success_rate"] - before["success_rate"], ""
    if paid := metrics.payoff_courses(before, after):
        if metrics.tells_payoffs_alone([before, after]):
            return Text.assemble((f"held-out payoffs, {after['sampling']:6} ", "bold"), f" {paid}")
        detail = f"\n    an episode pays {paid}"
    elif follows_proposals([before, after]):
        detail = (
            f"\n    last agent: keeps good proposals {share(before['keep_rate'])} -> {share(after['keep_rate'])}, "
            f"repairs bad ones {share(before['repair_rate'])} -> {share(after['repair_rate'])}"
        )
    return Text.assemble(
        (f"held-out success, {after['sampling']:6} ", "bold"),
        f" {before['success_rate']:.3f} -> {after['success_rate']:.3f} ",
        (f"({gain:+.3f}{_format_paired(before, after)})", "green" if gain > 0 else "red"),
        detail,
    )


def _format_paired(before: dict[str, Any], after: dict[str, Any]) -> str:
    one, other = before["num_solved_P"], after["num_solved_P"]
    if before["step"] == after["step"] or before["suite_digest"] != after["suite_digest"]:
        return ""
    low, high = compute_paired_interval(one, other)
    return f", 95% interval {low:+.3f} to {high:+.3f}"
