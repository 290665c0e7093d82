"""Which steps of a run are finished, by their final records."""

import logging
from collections.abc import Sequence

from components.artifacts.base import ArtifactStore
from components.artifacts.records import make_damage_error, read_as, read_verified, with_digest
from components.artifacts.refs import CheckpointRef, StageManifest
from components.errors import TroupeError
from components.runs.history import STEPS_PER_BLOCK, extend_history
from components.runs.initial_checkpoints import initial_checkpoints
from components.runs.run import Run, RunAddress
from components.runs.step_records import (
    StepRecord,
    StepSummary,
    most_attempts,
    read_step_record,
    step_record_key,
    summarise_step,
)
from components.schema import IterationReport

_log = logging.getLogger(__name__)


def read_finished_step(store: ArtifactStore, run: RunAddress, step: int) -> dict[str, CheckpointRef] | None:
    """The checkpoints after the step, or None while it is not finished. Raises ArtifactCorrupt."""
    record = read_step_record(store, run, step)
    return None if record is None else record.checkpoints


def finish_step(
    store: ArtifactStore,
    run: RunAddress,
    step: int,
    checkpoints: dict[str, CheckpointRef],
    report: IterationReport | None = None,
    stages: Sequence[StageManifest] | None = None,
) -> dict[str, CheckpointRef]:
    """Record that the step is finished; the checkpoints of the process that recorded it first.

    `report` and the committed `stages`, without those that a step may lack, are read unless given.
    """
    if report is not None and stages is not None:
        summary = StepSummary(metrics=report.metrics, timings=report.timings, attempts=most_attempts(stages))
    else:
        summary = summarise_step(store, run, step, report)
    record = StepRecord(checkpoints=checkpoints, summary=summary)
    key = step_record_key(run, step)

    def agrees(content: bytes) -> bool:
        return read_as(key, content, StepRecord).checkpoints == checkpoints

    is_first = store.create_later(key, with_digest(record.model_dump(mode="json")), agrees=agrees)
    if (step + 1) % STEPS_PER_BLOCK == 0:
        _extend_history(store, run, step + 1)
    if is_first:
        return checkpoints
    finished = read_finished_step(store, run, step)
    assert finished is not None, f"the record of step {step} was refused and cannot be read"
    return finished


def checkpoints_before(store: ArtifactStore, run: Run, step: int) -> dict[str, CheckpointRef]:
    """The checkpoints before `step`, which the run has reached."""
    if step == 0:
        return initial_checkpoints(store, run)
    checkpoints = read_finished_step(store, run, step - 1)
    assert checkpoints is not None, f"step {step - 1} of {run.run_id} is not finished"
    return checkpoints


def first_unfinished_step(store: ArtifactStore, run: RunAddress) -> int:
    """The step at which training continues; also the number of finished steps."""
    keys = set(store.list(f"runs/{run.run_id}/iterations/"))
    step = 0
    while step_record_key(run, step) in keys:
        step += 1
    return step


def last_step(store: ArtifactStore, run: Run) -> int:
    """The number of steps with which the run ends: those of its configuration, or those it has if they are more."""
    return max(run.config.num_steps, first_unfinished_step(store, run))


def first_step(store: ArtifactStore, run: Run, *, flow_run_id: str) -> int:
    """The step at which this flow run's loop starts, equal on each of its retries.

    Prefect identifies the child runs of a retried flow run by position. A loop that skipped ahead on a retry would get
    the result of another step, so the first attempt records where it started.
    """
    key = f"runs/{run.run_id}/flow_runs/{flow_run_id}.json"
    if (content := store.read(key)) is None:
        store.create(key, with_digest({"first_step": first_unfinished_step(store, run)}))
        content = store.read(key)
    assert content is not None, f"{key} was written and cannot be read"
    value = read_verified(key, content).get("first_step")
    if not isinstance(value, int):
        raise make_damage_error(key, f"it names {value!r} as the first step")
    return value


def _extend_history(store: ArtifactStore, run: RunAddress, num_finished: int) -> None:
    """Errors are logged only: the history can be rebuilt from other records."""
    try:
        extend_history(store, run, num_finished)
    except TroupeError as error:
        _log.warning("the history of %s is not extended: %s", run.run_id, error)
