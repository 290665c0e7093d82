"""The policies before training, as a run has recorded them: made by its warm start, which runs of equal configuration share."""

from components.artifacts.base import ArtifactStore
from components.artifacts.records import read_as, with_digest
from components.artifacts.refs import CheckpointRef
from components.frozen import Frozen
from components.runs.pipeline import Pipeline
from components.runs.run import Run, RunAddress, stage_key
from components.runs.stage_protocol import manifest_key, read_committed


class InitialRecord(Frozen):
    """The policies before training, and the manifest of the shared result that they are."""

    manifest: str
    checkpoints: dict[str, CheckpointRef]


def record_initial_checkpoints(store: ArtifactStore, run: Run, pipeline: Pipeline) -> dict[str, CheckpointRef]:
    """The policies with which the run's newest restart begins, recorded. Their warm start is committed."""
    key = stage_key(pipeline.first, run)
    found = read_committed(store, key, dict[str, CheckpointRef])
    assert found is not None, f"run {run.run_id} has no committed warm start in {store.uri}"
    record = InitialRecord(manifest=manifest_key(key), checkpoints=found)
    newest = run.lineages[-1].lineage if run.lineages else 0
    store.create(initial_key(run.run_id, newest), with_digest(record.model_dump(mode="json")))
    return found


def initial_checkpoints(store: ArtifactStore, run: RunAddress) -> dict[str, CheckpointRef]:
    """The policies before training of a run that has started."""
    found = read_initial_checkpoints(store, run)
    assert found is not None, f"run {run.run_id} has no record of its first policies in {store.uri}"
    return found


def read_initial_checkpoints(store: ArtifactStore, run: RunAddress) -> dict[str, CheckpointRef] | None:
    """The policies before training, as the newest restart that has begun recorded them; None if the run has not started, or a
    Troupe started it that did not record them. Raises ArtifactCorrupt."""
    for number in (*(each.lineage for each in reversed(run.lineages)), 0):
        key = initial_key(run.run_id, number)
        if (content := store.read(key)) is not None:
            return read_as(key, content, InitialRecord).checkpoints
    return None


def initial_key(run_id: str, lineage: int) -> str:
    """The key of the record of the policies with which a lineage begins."""
    return f"runs/{run_id}/initial/policies-l{lineage}.json"
