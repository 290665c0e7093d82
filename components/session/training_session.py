"""Training under a run's name: start and end records, frozen configuration, workers, publishing."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic
from types import MappingProxyType
from typing import Any

from components.artifacts.format import ensure_format
from components.artifacts.refs import CheckpointRef
from components.machine.outages import interruptible
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config, store_option, view_command
from components.runs.pipeline import Pipeline
from components.runs.resume_checks import resume_warnings, surplus_line, validate_start
from components.runs.session_records import begin_session, end_session
from components.schema import EvalReport
from components.session.publishing import Publishing
from components.session.session import Session
from components.session.tracing import tracing_of

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
        if session.publishing is not None:
            session.publishing.close(succeeded=error is None)
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
