"""Which steps of a run are finished, by the records that their iterations left last."""

import logging
from collections.abc import Sequence

from components.artifacts.base import ArtifactStore
from components.artifacts.records import damaged, read_as, sealed, unsealed
from components.artifacts.refs import CheckpointRef, StageManifest
from components.errors import TroupeError
from components.schema import IterationReport
from tasks.first_checkpoints import first_checkpoints
from tasks.history import STEPS_PER_BLOCK, extend_history
from tasks.run import Run, RunAddress
from tasks.step_records import StepRecord, StepSummary, most_attempts, read_step_record, step_record_key, summarised

_log = logging.getLogger(__name__)


def finished_step(store: ArtifactStore, run: RunAddress, step: int) -> dict[str, CheckpointRef] | None:
    """The checkpoints that the step left, or None while it is not finished. Raises ArtifactCorrupt."""
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
    """Record that the step is finished; the checkpoints of whoever recorded it first.

    Its `report` and its committed `stages` are read unless they are given.
    """
    if report is not None and stages is not None:
        summary = StepSummary(metrics=report.metrics, timings=report.timings, attempts=most_attempts(stages))
    else:
        summary = summarised(store, run, step, report)
    record = StepRecord(checkpoints=checkpoints, summary=summary)
    key = step_record_key(run, step)

    def agrees(content: bytes) -> bool:
        return read_as(key, content, StepRecord).checkpoints == checkpoints

    is_first = store.create_later(key, sealed(record.model_dump(mode="json")), agrees=agrees)
    if (step + 1) % STEPS_PER_BLOCK == 0:
        _extend_history(store, run, step + 1)
    if is_first:
        return checkpoints
    finished = finished_step(store, run, step)
    assert finished is not None, f"the record of step {step} was refused and cannot be read"
    return finished


def checkpoints_before(store: ArtifactStore, run: Run, step: int) -> dict[str, CheckpointRef]:
    """The checkpoints with which `step` begins, of a run that has come so far."""
    if step == 0:
        return first_checkpoints(store, run)
    checkpoints = finished_step(store, run, step - 1)
    assert checkpoints is not None, f"step {step - 1} of {run.run_id} is not finished"
    return checkpoints


def first_unfinished_step(store: ArtifactStore, run: RunAddress) -> int:
    """The step with which training goes on; also the number of finished steps."""
    keys = set(store.list(f"runs/{run.run_id}/iterations/"))
    step = 0
    while step_record_key(run, step) in keys:
        step += 1
    return step


def first_step(store: ArtifactStore, run: Run, *, flow_run_id: str) -> int:
    """The step at which this flow run's loop starts, equal on each of its retries.

    Prefect tells the child runs of a retried flow run apart by position. A loop that skipped ahead on a retry would be
    handed the result of another step, so the first attempt writes down where it started.
    """
    key = f"runs/{run.run_id}/flow_runs/{flow_run_id}.json"
    if (content := store.read(key)) is None:
        store.create(key, sealed({"first_step": first_unfinished_step(store, run)}))
        content = store.read(key)
    assert content is not None, f"{key} was written and cannot be read"
    if content.isdigit():  # as versions wrote it that sealed no records
        return int(content)
    value = unsealed(key, content).get("first_step")
    if not isinstance(value, int):
        raise damaged(key, f"it names {value!r} as the first step")
    return value


def _extend_history(store: ArtifactStore, run: RunAddress, num_finished: int) -> None:
    """The history repeats other records: a step is finished without it."""
    try:
        extend_history(store, run, num_finished)
    except TroupeError as error:
        _log.warning("the history of %s is not extended: %s", run.run_id, error)
