"""The record that ends an iteration: the step's checkpoints and its summary."""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pydantic import Field, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.records import make_damage_error, read_as
from components.artifacts.refs import CheckpointRef, StageManifest
from components.frozen import Frozen
from components.runs.lineages import lineage_at_end, lineage_for
from components.runs.run import RunAddress
from components.runs.session_records import read_roles
from components.schema import IterationReport

RESULT = re.compile(
    r"runs/(?P<run>[^/]+)/steps/(?P<step>\d+)/(?P<stage>\w+)-v\d+/(?P<part>[^/]+)/l(?P<lineage>\d+)-[^/]+/(?P<name>.+)"
)
"""The key of a record of a stage's result; `name` tells which."""


class StepSummary(Frozen):
    """A finished step's report, and the number of attempts per stage."""

    metrics: dict[str, float] = Field(default_factory=dict)
    timings: dict[str, float] = Field(default_factory=dict)
    attempts: dict[str, int] = Field(default_factory=dict)


class StepRecord(Frozen):
    """A finished step."""

    checkpoints: dict[str, CheckpointRef]
    summary: StepSummary


def step_record_key(run: RunAddress, step: int) -> str:
    """The record's key, in the newest restart that covers the end of this step."""
    return f"runs/{run.run_id}/iterations/{step:06d}-l{lineage_at_end(run.lineages, step)}.json"


def read_step_record(store: ArtifactStore, run: RunAddress, step: int) -> StepRecord | None:
    """The record of a step, or None while the step is not finished. Raises ArtifactCorrupt."""
    key = step_record_key(run, step)
    content = store.read(key)
    return None if content is None else read_as(key, content, StepRecord)


def summarise_step(
    store: ArtifactStore, run: RunAddress, step: int, report: IterationReport | None = None
) -> StepSummary:
    """The summary of a step from its stages' records: one listing, and one read unless `report` is given."""
    keys = list(store.list(f"runs/{run.run_id}/steps/{step:06d}/"))
    roles = read_roles(store, run.run_id)
    manifests = [key for key in manifest_keys(run, keys) if not roles[stage_of(key)].optional]
    attempts: dict[str, int] = {}
    for manifest in manifests:
        # The maximum over parts: two shards with one attempt each are not two attempts.
        prefix = f"{manifest.removesuffix('manifest.json')}attempts/"
        num_attempts = max(1, sum(key.startswith(prefix) for key in keys))
        attempts[stage_of(manifest)] = max(attempts.get(stage_of(manifest), 0), num_attempts)
    if report is not None:
        return StepSummary(metrics=report.metrics, timings=report.timings, attempts=attempts)
    reported = next((key for key in manifests if roles[stage_of(key)].ends_step), None)
    if reported is None:
        return StepSummary(attempts=attempts)
    output = read_manifest_at(store, reported).output
    try:
        return StepSummary(metrics=output["metrics"], timings=output["timings"], attempts=attempts)
    except (ValidationError, TypeError, KeyError) as error:
        raise make_damage_error(reported, "no report of this version of Troupe") from error


def most_attempts(stages: Iterable[StageManifest]) -> dict[str, int]:
    """The number of attempts per stage, the maximum over its parts."""
    attempts: dict[str, int] = {}
    for each in stages:
        attempts[each.stage] = max(attempts.get(each.stage, 0), each.attempt)
    return attempts


def step_manifests(
    store: ArtifactStore, run: RunAddress, step: int, known: Mapping[str, StageManifest] = MappingProxyType({})
) -> list[StageManifest]:
    """The committed stages of one step in the run's newest lineages, in the order of their keys.

    `known` holds manifests by key that need not be read.
    """
    keys = manifest_keys(run, store.list(f"runs/{run.run_id}/steps/{step:06d}/"))
    return [known.get(key) or read_manifest_at(store, key) for key in keys]


def read_manifest_at(store: ArtifactStore, key: str) -> StageManifest:
    """The manifest at a listed key. Raises ArtifactCorrupt."""
    content = store.read(key)
    assert content is not None, f"{key} is listed and cannot be read"
    return read_as(key, content, StageManifest)


def manifest_keys(run: RunAddress, keys: Iterable[str]) -> Sequence[str]:
    """Those of `keys` that are manifests of the run's newest lineages. Unknown keys are skipped."""
    return [key for key in keys if is_current(run, key)]


def is_current(run: RunAddress, key: str) -> bool:
    """Whether this is a manifest of the newest restart that covers its step and stage."""
    found = RESULT.fullmatch(key)
    if found is None or found["name"] != "manifest.json":
        return False
    return int(found["lineage"]) == lineage_for(run.lineages, int(found["step"]), found["stage"])


def step_of(key: str) -> int:
    """**Example** `runs/r7/steps/000012/compute_rewards-v1/0/l2-9f/manifest.json` is of step 12."""
    return int(key.split("/")[3])


def stage_of(key: str) -> str:
    """**Example** `runs/r7/steps/000012/compute_rewards-v1/0/l2-9f/manifest.json` is of "compute_rewards"."""
    return key.split("/")[4].rsplit("-v", 1)[0]
