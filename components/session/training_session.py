"""Training under a run's name: start and end records, frozen configuration, workers, publishing."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic
from types import MappingProxyType
from typing import Any

from components.artifacts.format import ensure_format
from components.artifacts.refs import CheckpointRef, StageManifest
from components.machine.outages import interruptible
from components.metrics import seconds, train
from components.reporting import progress
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config, store_option, view_command
from components.runs.pipeline import Pipeline
from components.runs.resume_checks import resume_warnings, surplus_line, validate_start
from components.runs.run import PolicyUpdate, StepBatches
from components.runs.session_records import begin_session, end_session
from components.runs.step_records import step_manifests
from components.schema import EvalReport, IterationReport
from components.session.publishing import Publishing
from components.session.session import Session
from components.session.step_snapshot import locally_computed_stages
from components.session.tracing import tracing_of
from components.text.escaping import markdown_cell

_log = logging.getLogger(__name__)


@contextmanager
def training_session(session: Session, pipeline: Pipeline) -> Iterator[None]:
    """Within the block the session works on its run with its workers started. Records tell its start and how it ended.

    Raises ConfigDrift if the run exists under another configuration, and the other errors of `validate_start`. On any exit
    the workers are ended and the outbox is published as far as MLflow allows.
    """
    session.roles = pipeline.roles
    session.run = run = validate_start(session.store, session.run.run_id, session.config, pipeline)
    for line in [*resume_warnings(session.store, run), *surplus_line(session.store, run)]:
        _log.info("%s", line)
    ensure_format(session.store)
    record = begin_session(session.store, run, pipeline, sandbox_image=session.toolbox.image_digest())
    error: BaseException | None = None
    try:
        with interruptible():
            session.trainers.warm_up()
            yield
            session.store.flush()
    except BaseException as caught:
        error = caught
        raise
    finally:
        session.trainers.close()
        session.toolbox.close()
        session.close_store()
        try:
            if session.publishing is not None:
                session.publishing.close(succeeded=error is None)
        finally:
            # An interruption is not an error of the run.
            end_session(session.store, run.run_id, record, error if isinstance(error, Exception) else None)


def freeze_run(session: Session, pipeline: Pipeline, changed: Mapping[str, str] = MappingProxyType({})) -> None:
    """Freeze the run's configuration. Raises ConfigDrift if another process froze a different one first.

    Call it after the policies exist: a failure before leaves the name free for another configuration. `changed` are the
    parameters in which the run differs from its preset.
    """
    freeze_config(session.store, session.run.run_id, session.config, pipeline)
    first = record_initial_checkpoints(session.store, session.run, pipeline)
    store = session.store.durable
    session.publishing = Publishing(
        session.run,
        pipeline,
        store,
        session.tracker,
        first=first,
        tracing=tracing_of(session.run, store, session.scenario, session.toolbox),
        changed=changed,
        started_ms=session.started_ms,
    )


def summary(
    session: Session,
    checkpoints: dict[str, CheckpointRef],
    evaluations: list[EvalReport],
    *,
    num_steps: int,
    began_at_seconds: float,
) -> dict[str, Any]:
    """The result of the `train` flow, plain JSON, after `num_steps` steps. `began_at_seconds` is on the monotonic clock."""
    return {
        "run_id": session.run.run_id,
        "store_option": store_option(session.store),
        "graph_command": _graph_command(session) if num_steps > 0 else None,
        "num_steps": num_steps,
        "checkpoint_digest": {policy: ref.weights_digest for policy, ref in checkpoints.items()},
        "evaluations": [_plain(report) for report in evaluations],
        "seconds": monotonic() - began_at_seconds,
        "num_unpublished": session.published.outbox.num_pending,
        "refusal": session.published.outbox.refusal,
        "run_url": session.tracker.run_url(session.run.run_id),
        "api_usage": session.engines.api_usage(),
    }


def _graph_command(session: Session) -> str | None:
    """The command that shows who did what to whom; None unless a population is trained."""
    return (
        None if not session.config.method.draws_graph else f"{view_command(session.store, session.run.run_id)} --graph"
    )


def _plain(report: EvalReport) -> dict[str, Any]:
    """A report as plain JSON."""
    return asdict(report) | {"interval": list(report.interval), "num_solved_P": list(report.num_solved_P)}


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
