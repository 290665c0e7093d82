"""Reports of finished steps: for the store and MLflow, and as a page."""

from components.artifacts.refs import StageManifest
from components.metrics import seconds, train
from components.reporting import progress
from components.runs.run import PolicyUpdate, StepBatches
from components.runs.step_records import step_manifests
from components.schema import IterationReport
from components.session.session import Session
from components.session.step_snapshot import locally_computed_stages
from components.text.escaping import markdown_cell


def iteration_report(
    session: Session, step: int, batches: StepBatches, updates: dict[str, PolicyUpdate]
) -> IterationReport:
    """The report of a step from its committed stages."""
    run = session.run
    stages = locally_computed_stages(session, step) or step_manifests(session.store, run, step, session.manifests)
    metrics = dict(batches.metrics)
    for policy, update in updates.items():
        metrics |= {train(policy, name): value for name, value in update.metrics.items()}
    return IterationReport(
        run_id=run.run_id,
        step=step,
        metrics=metrics,
        timings=stage_seconds(stages),
        checkpoint_digest={policy: update.checkpoint.weights_digest for policy, update in updates.items()},
        optimizer_digest={policy: update.checkpoint.optimizer_digest for policy, update in updates.items()},
    )


def stage_seconds(manifests: list[StageManifest]) -> dict[str, float]:
    """Wall seconds by stage, summed over shards and policies, in the order in which the stages first ended."""
    totals: dict[str, float] = {}
    for manifest in sorted(manifests, key=lambda each: each.finished_at):
        totals[manifest.stage] = totals.get(manifest.stage, 0.0) + manifest.seconds
    return {seconds(stage): total for stage, total in totals.items()}


def iteration_page(report: IterationReport, *, run_url: str | None, view: str) -> str:
    """A Markdown page for one step: rewards, learning and seconds in tables, the tracked run, and the command `view`."""
    groups = {
        "Rollout and reward": ("rollout/", "reward/", "signal/", "api/"),
        "Update": ("train/",),
        "Seconds": ("time/",),
    }
    values = {**report.metrics, **report.timings}
    lines = [f"# {report.run_id}, step {report.step}", ""]
    if run_url:
        lines += [f"[The run in MLflow]({run_url})", ""]
    lines += [f"What each agent saw and wrote: `{view}`", ""]
    for title, prefixes in groups.items():
        rows = [(name, value) for name, value in sorted(values.items()) if name.startswith(prefixes)]
        lines += [f"## {title}", "", "| metric | value |", "|---|---:|"]
        lines += [f"| {markdown_cell(name)} | {value:.4g} |" for name, value in rows] + [""]
    lines += ["## Checkpoints", "", "| policy | weights |", "|---|---|"]
    lines += [f"| {markdown_cell(policy)} | `{digest[:16]}` |" for policy, digest in report.checkpoint_digest.items()]
    return "\n".join(lines)


def report_iteration(session: Session, report: IterationReport) -> None:
    """Report a finished step to the terminal."""
    num_steps = session.config.num_steps
    progress.report(
        "iteration", report.step, report.step + 1, num_steps, metrics=report.metrics, timings=report.timings
    )
