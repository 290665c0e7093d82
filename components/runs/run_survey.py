"""All records of a run, read once: what they say, what they name, and which of them still count."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from components.artifacts.base import ArtifactStore
from components.artifacts.parallel import in_parallel
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import RunConfig
from components.frozen import Frozen
from components.identity import config_key
from components.runs.history import block_key
from components.runs.initial_checkpoints import WARM_START, warm_start_key
from components.runs.lineages import Lineage, index_key
from components.runs.run import SHARED, RunAddress
from components.runs.session_records import SessionStart, standing_lineages
from components.runs.step_records import is_current, step_of, step_record_key
from components.runs.steps import first_unfinished_step
from components.runs.stored_records import Problem, RecordFacts, is_record, read_facts

_AT_ONCE = 512
"""Records whose content is in memory at once."""
_NUM_PARTS = 7
"""Of the key of a stage: `runs/<run>/steps/<step>/<stage>/<part>/<lineage>`."""


class NamedCheckpoint(NamedTuple):
    """A checkpoint as a record names it, with the keys of its folder and of its base's."""

    policy: str
    step: int
    folder: str
    base: str | None
    weights_digest: str
    optimizer_digest: str


@dataclass(slots=True)
class Survey:
    """A run's records: about two kilobytes for each, with a reference for each payload and folder."""

    run_id: str
    keys: frozenset[str]
    """Of the run's records and of the shared ones that were read."""
    problems: list[Problem] = field(default_factory=list)
    refs: dict[str, ArtifactRef] = field(default_factory=dict)
    """The key of a payload or folder -> its reference."""
    content: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Record -> the keys of the payloads and folders that it names."""
    checkpoints: dict[str, tuple[NamedCheckpoint, ...]] = field(default_factory=dict)
    stages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The record of a step -> its stages with a result."""
    needed: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """(run_id, step) -> the steps before which policies must be known to go on after it."""
    values: dict[str, Frozen] = field(default_factory=dict)
    shared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Record -> the manifests of shared results that it names: of an evaluation, by its entry in the run's index."""
    address: RunAddress | None = None
    """None if a restart cannot be read: then nobody knows which records count."""
    num_finished: int = 0

    @property
    def sessions(self) -> list[SessionStart]:
        """The readable starts of sessions, oldest first."""
        return [value for _, value in sorted(self.values.items()) if isinstance(value, SessionStart)]

    @property
    def config(self) -> RunConfig | None:
        """The newest configuration; None if it cannot be read."""
        if self.address is not None and self.address.lineages:
            return self.address.lineages[-1].config
        found = self.values.get(config_key(self.run_id))
        return found if isinstance(found, RunConfig) else None

    @property
    def warm_starts(self) -> tuple[str, ...]:
        """The manifests of the policies before training: of the first configuration, and of each restart with results."""
        first = self.values.get(config_key(self.run_id))
        configs = [first] if isinstance(first, RunConfig) else []
        for lineage in self.address.lineages if self.address else ():
            if any(f"/l{lineage.lineage}-" in key and key.endswith("/manifest.json") for key in self.keys):
                configs.append(lineage.config)
        return tuple(dict.fromkeys(map(warm_start_key, configs)))

    def counts(self, key: str) -> bool:
        """Whether the run still depends on this record: no restart has replaced it. True if the restarts are unknown."""
        kind = key.split("/")[2] if key.startswith(f"runs/{self.run_id}/") else ""
        if self.address is None:
            return True
        if kind == "steps":
            return is_current(self.address, f"{stage_prefix(key)}/manifest.json")
        if kind == "iterations":
            return key == step_record_key(self.address, int(key.split("/")[3].split("-")[0]))
        if kind == "evaluations":
            return is_current(self.address, evaluation_manifest(key))
        if kind == "history":
            return key == block_key(self.address, int(key.split("/")[3].split("-")[0]))
        return kind != "lineages" or key.replace("/lineages/", "/dropped/") not in self.keys

    def current_manifests(self) -> Iterator[str]:
        """The keys of the manifests of the run's own stages that still count."""
        own = f"runs/{self.run_id}/steps/"
        return (key for key in self.keys if key.startswith(own) and key.endswith("/manifest.json") and self.counts(key))

    def add(self, facts: RecordFacts) -> None:
        """Take in what one record says."""
        if facts.problem is not None:
            self.problems.append(facts.problem)
        if isinstance(facts.value, Frozen):
            self.values[facts.key] = facts.value
        for ref in facts.content:
            self.refs.setdefault(ref.key, ref)
        if facts.content:
            self.content[facts.key] = tuple(ref.key for ref in facts.content)
        if facts.checkpoints:
            self.checkpoints[facts.key] = tuple(map(_named, facts.checkpoints))
        if facts.stages:
            self.stages[facts.key] = facts.stages
        if facts.needed_steps:
            self.needed.setdefault((self.run_id, step_of(facts.key)), set()).update(facts.needed_steps)
        if facts.shared:
            self.shared[facts.key] = facts.shared


def survey(store: ArtifactStore, run_id: str, done: Callable[[int], None]) -> Survey:
    """All records of a run, and the shared ones that it uses. `done` gets the number read so far. Raises StoreUnavailable."""
    keys = [*filter(is_record, store.list(f"runs/{run_id}/")), index_key(run_id)]
    found = Survey(run_id=run_id, keys=frozenset(keys))
    _read(store, keys, found, done)
    found.address = _address(store, found)
    if found.address is not None:
        found.num_finished = first_unfinished_step(store, found.address)
    found.shared |= _shared_evaluations(store, found)
    shared = {manifest for manifests in found.shared.values() for manifest in manifests}
    shared |= {key for key in found.warm_starts if is_expected_warm_start(found, key, store)}
    _read(store, sorted(shared), found, lambda count: done(len(keys) + count))
    found.keys |= shared
    return found


def is_expected_warm_start(found: Survey, key: str, store: ArtifactStore) -> bool:
    """False for one that is not there if an earlier version of Troupe began the run: its key cannot be told."""
    versions = {each.provenance.stage_versions.get(WARM_START.name, WARM_START.version) for each in found.sessions}
    return versions <= {WARM_START.version} or any(store.list(key))


def stage_prefix(key: str) -> str:
    """The key of the stage that a record below `steps/` belongs to."""
    return "/".join(key.split("/")[:_NUM_PARTS])


def evaluation_manifest(index_key: str) -> str:
    """The manifest of the evaluation with this entry in the run's index."""
    return index_key.replace("/evaluations/", "/steps/", 1).removesuffix(".json") + "/manifest.json"


def step_in(key: str) -> int | None:
    """The step that a record is of, None for others."""
    parts = key.split("/")
    if parts[0] != "runs" or parts[1] == SHARED or len(parts) < 4 or parts[2] not in ("steps", "iterations"):
        return None
    return step_of(key) if parts[2] == "steps" else int(parts[3].split("-")[0])


def _read(store: ArtifactStore, keys: Sequence[str], found: Survey, done: Callable[[int], None]) -> None:
    """Read records into `found`."""
    for first in range(0, len(keys), _AT_ONCE):

        def told(count: int, before: int = first) -> None:
            done(before + count)

        for facts in in_parallel(partial(read_facts, store), keys[first : first + _AT_ONCE], done=told):
            found.add(facts)


def _shared_evaluations(store: ArtifactStore, found: Survey) -> dict[str, tuple[str, ...]]:
    """The evaluations of the run's index that lie under the same name among the shared results."""
    without = {key for key in found.keys - found.shared.keys() if f"runs/{found.run_id}/evaluations/" in key}
    wanted = {
        evaluation_manifest(key).replace(f"runs/{found.run_id}/", f"runs/{SHARED}/", 1): key
        for key in without
        if evaluation_manifest(key) not in found.keys
    }
    there = store.list(f"runs/{SHARED}/steps/") if wanted else ()
    return {wanted[manifest]: (manifest,) for manifest in there if manifest in wanted}


def _address(store: ArtifactStore, found: Survey) -> RunAddress | None:
    """The run's standing restarts; None if one cannot be read."""
    keys = [key for key in sorted(found.keys) if key.startswith(f"runs/{found.run_id}/lineages/")]
    standing = [key for key in keys if key.replace("/lineages/", "/dropped/") not in found.keys]
    lineages = [value for key in standing if isinstance(value := found.values.get(key), Lineage)]
    if len(lineages) < len(standing):
        return None
    return RunAddress(run_id=found.run_id, lineages=standing_lineages(store, found.run_id, tuple(lineages)))


def _named(checkpoint: CheckpointRef) -> NamedCheckpoint:
    return NamedCheckpoint(
        policy=checkpoint.policy,
        step=checkpoint.step,
        folder=checkpoint.folder.key,
        base=None if checkpoint.base is None else checkpoint.base.key,
        weights_digest=checkpoint.weights_digest,
        optimizer_digest=checkpoint.optimizer_digest,
    )
