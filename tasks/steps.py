"""Which steps of a run are finished, by the records that their iterations left last."""

from pydantic import TypeAdapter

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef, StageManifest
from components.artifacts.runs import lineage_for
from components.identity import canonical_json
from tasks.run import Run

_CHECKPOINTS = TypeAdapter(dict[str, CheckpointRef])


def finished_step(store: ArtifactStore, run: Run, step: int) -> dict[str, CheckpointRef] | None:
    """The checkpoints that the step left, or None while it is not finished."""
    content = store.read(_record_key(run, step))
    return None if content is None else _CHECKPOINTS.validate_json(content)


def finish_step(
    store: ArtifactStore, run: Run, step: int, checkpoints: dict[str, CheckpointRef]
) -> dict[str, CheckpointRef]:
    """Record that the step is finished; the checkpoints of whoever recorded it first."""
    content = canonical_json(_CHECKPOINTS.dump_python(checkpoints, mode="json"))
    if store.create(_record_key(run, step), content):
        return checkpoints
    finished = finished_step(store, run, step)
    assert finished is not None, f"the record of step {step} was refused and cannot be read"
    return finished


def checkpoints_before(store: ArtifactStore, run: Run, step: int) -> dict[str, CheckpointRef]:
    """The checkpoints with which `step` begins, of a run that has come so far."""
    from tasks.warm_start import committed_warm_start

    if step == 0:
        return committed_warm_start(run)
    checkpoints = finished_step(store, run, step - 1)
    assert checkpoints is not None, f"step {step - 1} of {run.run_id} is not finished"
    return checkpoints


def first_unfinished_step(store: ArtifactStore, run: Run) -> int:
    """The step with which training goes on; also the number of finished steps."""
    keys = set(store.list(f"runs/{run.run_id}/iterations/"))
    step = 0
    while _record_key(run, step) in keys:
        step += 1
    return step


def first_step(store: ArtifactStore, run: Run, *, flow_run_id: str) -> int:
    """The step at which this flow run's loop starts, equal on each of its retries.

    Prefect tells the child runs of a retried flow run apart by position. A loop that skipped ahead on a retry would be
    handed the result of another step, so the first attempt writes down where it started.
    """
    key = f"runs/{run.run_id}/flow_runs/{flow_run_id}.json"
    if (content := store.read(key)) is None:
        store.create(key, str(first_unfinished_step(store, run)).encode())
        content = store.read(key)
    assert content is not None, f"{key} was written and cannot be read"
    return int(content)


def step_manifests(store: ArtifactStore, run: Run, step: int) -> list[StageManifest]:
    """The committed stages of one step that belong to the run's newest lineages, in the order of their keys."""
    manifests = []
    for key in store.list(f"runs/{run.run_id}/steps/{step:06d}/"):
        stage, lineage = _stage_and_lineage(key)
        if not key.endswith("/manifest.json") or lineage != lineage_for(run.lineages, step, stage):
            continue
        content = store.read(key)
        assert content is not None, f"{key} is listed and cannot be read"
        manifests.append(StageManifest.model_validate_json(content))
    return manifests


def _stage_and_lineage(key: str) -> tuple[str, int]:
    """**Example** `runs/r7/steps/000012/compute_rewards-v1/0/l2-9f/manifest.json` is ("compute_rewards", 2)."""
    parts = key.split("/")
    return parts[4].rsplit("-v", 1)[0], int(parts[6].split("-")[0].removeprefix("l"))


def _record_key(run: Run, step: int) -> str:
    return f"runs/{run.run_id}/iterations/{step:06d}-l{lineage_for(run.lineages, step, 'publish_checkpoint')}.json"
