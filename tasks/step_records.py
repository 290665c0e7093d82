"""The record that an iteration leaves last: its step's checkpoints, and what the step is shown as."""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pydantic import Field, TypeAdapter, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.records import DIGEST, damaged, read_as, unsealed
from components.artifacts.refs import CheckpointRef, Frozen, StageManifest
from components.artifacts.runs import lineage_for
from components.identity import STAGES
from components.schema import IterationReport
from tasks.run import RunAddress

_MANIFEST = re.compile(
    r"runs/[^/]+/steps/(?P<step>\d+)/(?P<stage>\w+)-v\d+/[^/]+/l(?P<lineage>\d+)-[^/]+/manifest\.json"
)
_CHECKPOINTS = TypeAdapter(dict[str, CheckpointRef])


class StepSummary(Frozen):
    """What a finished step is shown as: its report, and how often each stage was tried."""

    metrics: dict[str, float] = Field(default_factory=dict)
    timings: dict[str, float] = Field(default_factory=dict)
    attempts: dict[str, int] = Field(default_factory=dict)


class StepRecord(Frozen):
    """A finished step. `summary` is None in records of versions that wrote none; `summarised` finds it in the stages' own."""

    checkpoints: dict[str, CheckpointRef]
    summary: StepSummary | None = None


def step_record_key(run: RunAddress, step: int) -> str:
    """Where the record lies, for the newest restart that the end of this step belongs to."""
    return f"runs/{run.run_id}/iterations/{step:06d}-l{lineage_for(run.lineages, step, 'publish_checkpoint')}.json"


def read_step_record(store: ArtifactStore, run: RunAddress, step: int) -> StepRecord | None:
    """The record of a step, or None while the step is not finished. Raises ArtifactCorrupt."""
    key = step_record_key(run, step)
    content = store.read(key)
    if content is None:
        return None
    if DIGEST.encode() in content:
        return read_as(key, content, StepRecord)
    try:
        return StepRecord(checkpoints=_CHECKPOINTS.validate_python(unsealed(key, content)))
    except ValidationError as error:
        raise damaged(key, "no checkpoints of this version of Troupe") from error


def summarised(store: ArtifactStore, run: RunAddress, step: int, report: IterationReport | None = None) -> StepSummary:
    """The summary of a step from its stages' records: one listing, and one read unless its `report` is given."""
    keys = list(store.list(f"runs/{run.run_id}/steps/{step:06d}/"))
    manifests = [key for key in manifest_keys(run, keys) if stage_of(key) != "evaluate_policy"]
    attempts: dict[str, int] = {}
    for manifest in manifests:
        # Of the part that took most: two shards, each done at once, are no second attempt.
        prefix = f"{manifest.removesuffix('manifest.json')}attempts/"
        num_attempts = max(1, sum(key.startswith(prefix) for key in keys))
        attempts[stage_of(manifest)] = max(attempts.get(stage_of(manifest), 0), num_attempts)
    if report is not None:
        return StepSummary(metrics=report.metrics, timings=report.timings, attempts=attempts)
    reported = next((key for key in manifests if stage_of(key) == "publish_checkpoint"), None)
    if reported is None:
        return StepSummary(attempts=attempts)
    output = read_manifest_at(store, reported).output
    try:
        return StepSummary(metrics=output["metrics"], timings=output["timings"], attempts=attempts)
    except (ValidationError, TypeError, KeyError) as error:
        raise damaged(reported, "no report of this version of Troupe") from error


def most_attempts(stages: Iterable[StageManifest]) -> dict[str, int]:
    """How often each stage was tried, evaluations apart: of its parts the one that took most."""
    attempts: dict[str, int] = {}
    for each in stages:
        if each.stage != "evaluate_policy":
            attempts[each.stage] = max(attempts.get(each.stage, 0), each.attempt)
    return attempts


def step_manifests(
    store: ArtifactStore, run: RunAddress, step: int, known: Mapping[str, StageManifest] = MappingProxyType({})
) -> list[StageManifest]:
    """The committed stages of one step that belong to the run's newest lineages, in the order of their keys.

    `known` are manifests by key that need not be read: what is committed never changes.
    """
    keys = manifest_keys(run, store.list(f"runs/{run.run_id}/steps/{step:06d}/"))
    return [known.get(key) or read_manifest_at(store, key) for key in keys]


def read_manifest_at(store: ArtifactStore, key: str) -> StageManifest:
    """The manifest that a listing showed. Raises ArtifactCorrupt."""
    content = store.read(key)
    assert content is not None, f"{key} is listed and cannot be read"
    return read_as(key, content, StageManifest)


def manifest_keys(run: RunAddress, keys: Iterable[str]) -> Sequence[str]:
    """Those of `keys` that are manifests of the run's newest lineages. What another version or a stranger left is not."""
    return [key for key in keys if is_current(run, key)]


def is_current(run: RunAddress, key: str) -> bool:
    """Whether this is a manifest of the newest restart that its stage of its step belongs to."""
    found = _MANIFEST.fullmatch(key)
    if found is None or found["stage"] not in STAGES:
        return False
    return int(found["lineage"]) == lineage_for(run.lineages, int(found["step"]), found["stage"])


def step_of(key: str) -> int:
    """**Example** `runs/r7/steps/000012/compute_rewards-v1/0/l2-9f/manifest.json` is of step 12."""
    return int(key.split("/")[3])


def stage_of(key: str) -> str:
    """**Example** `runs/r7/steps/000012/compute_rewards-v1/0/l2-9f/manifest.json` is of "compute_rewards"."""
    return key.split("/")[4].rsplit("-v", 1)[0]
