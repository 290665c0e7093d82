"""Garbage collection: expired checkpoints and rollouts, unreferenced payloads, and leftovers of interrupted writers.

It removes only what is certainly not needed. A run with an unreadable record is left alone, and the references in that record
are unknown: while there is one, only the files of expired checkpoints and rollouts are removed, not other unreferenced content.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import Field

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.layout import FOLDERS, PAYLOADS
from components.artifacts.records import with_digest
from components.errors import ConfigurationError, StoreRefused
from components.frozen import Frozen
from components.identity import fingerprint
from components.runs.gc_records import Records

DAY_SECONDS = 86400.0
_log = logging.getLogger(__name__)


class GarbageReport(Frozen):
    """What was removed, or would be in a dry run, and what is kept."""

    num_objects: int
    """Payloads, files of folders, and records of checkpoints, rollouts and shared results."""
    num_bytes: int
    num_checkpoints: int
    """Manifests of expired updates."""
    num_rollouts: int = 0
    """Manifests of expired rollouts, rewards and batches."""
    num_shared: int = 0
    """Manifests of shared results that no run uses."""
    num_multiparts: int
    """Unfinished uploads and temporary files."""
    num_kept_objects: int
    num_kept_bytes: int
    num_young_objects: int = 0
    """Kept only because they are young."""
    num_young_bytes: int = 0
    checkpoints: Mapping[str, tuple[int, ...]] = Field(default_factory=dict)
    """run_id -> the numbers of updates after which the removed checkpoints were written."""
    damaged: Mapping[str, str] = Field(default_factory=dict)
    """run_id -> the unreadable record because of which the run was left alone; `_shared` stands for records that runs share."""

    def document(self) -> dict[str, Any]:
        """The report as plain JSON."""
        return self.model_dump(mode="json")


def collect_garbage(
    store: ArtifactStore,
    *,
    keep_checkpoints: int | None = None,
    grace_seconds: float,
    shared_seconds: float = 30 * DAY_SECONDS,
    dry_run: bool,
) -> GarbageReport:
    """Remove what no record needs and what is older than `grace_seconds`; content of the remaining manifests stays.

    Each run keeps the checkpoints and rollouts that its own `retention` names; `keep_checkpoints` replaces the number of the
    newest checkpoints. Shared results stay while a run uses them, and for `shared_seconds` without one.

    Choose a grace above the longest stage plus an hour: a stage's payloads are unreferenced until it commits, and existing
    payloads are reused during their first hour. Manifests are deleted before the files, so a crash in between leaves garbage
    for the next call. References are searched in records, never inside payloads. One small record for each run that loses
    checkpoints is written, by which `troupe verify` tells them from lost ones.
    """
    if keep_checkpoints is not None and keep_checkpoints < 1:
        raise ConfigurationError(
            f"keep_checkpoints {keep_checkpoints}: a run needs at least its newest one to continue"
        )
    content, found = list_objects(store)
    records = Records(store, found)
    keep = partial(_needless, records, content, keep_checkpoints=keep_checkpoints)
    needless = keep(grace_seconds=grace_seconds, shared_seconds=max(shared_seconds, grace_seconds))
    but_for_their_age = keep(grace_seconds=0, shared_seconds=shared_seconds).objects
    if not dry_run:
        unrecorded = _record(store, needless.expired)
        # Manifests before the content that they name.
        store.delete_all([each.key for each in (*needless.expired, *needless.rollouts, *needless.shared)])
        store.delete_all([each.key for each in needless.content])
        for each in _record(store, unrecorded):  # a full store has room now
            _log.warning("that %s was removed is not recorded: `troupe verify` will miss it", each.key)
    report = _report(needless, num_bytes_before=num_bytes_of([*content, *found]), num_before=len(content) + len(found))
    return report.model_copy(
        update={
            "num_multiparts": store.discard_unfinished(older_than_seconds=grace_seconds, dry_run=dry_run),
            "num_young_objects": len(but_for_their_age) - report.num_objects,
            "num_young_bytes": num_bytes_of(but_for_their_age) - report.num_bytes,
            "damaged": records.damaged,
        }
    )


def remove_expired_checkpoints(store: ArtifactStore, run_id: str) -> None:
    """Remove at once the checkpoints that this run does not keep by its retention. Files that other records name stay."""
    content, found = list_objects(store)
    records, own = Records(store, found), f"runs/{run_id}/"
    expired = [each for each in records.expired(keep_checkpoints=None, grace_seconds=0) if each.key.startswith(own)]
    needless = records.references_in(expired) - records.references(without=expired)
    store.delete_all([each.key for each in expired])  # records before the files that they name
    store.delete_all([each.key for each in content if name_of(each.key) in needless])


def _record(store: ArtifactStore, expired: Iterable[StoredObject]) -> list[StoredObject]:
    """Record for each run which manifests of its checkpoints are removed; those whose record the store has refused."""
    removed: dict[str, list[StoredObject]] = defaultdict(list)
    for each in expired:
        removed[each.key.split("/")[1]].append(each)
    refused: list[StoredObject] = []
    for run_id, manifests in removed.items():
        content = {"manifests": sorted(each.key for each in manifests)}
        try:
            store.create(f"runs/{run_id}/collected/{fingerprint(content)[:16]}.json", with_digest(content))
        except StoreRefused:
            refused += manifests
    return refused


def _report(needless: "_Needless", *, num_before: int, num_bytes_before: int) -> GarbageReport:
    gone, num_bytes = needless.objects, num_bytes_of(needless.objects)
    return GarbageReport(
        num_objects=len(gone),
        num_bytes=num_bytes,
        num_checkpoints=len(needless.expired),
        num_rollouts=sum(each.key.endswith("/manifest.json") for each in needless.rollouts),
        num_shared=sum(each.key.endswith("/manifest.json") for each in needless.shared),
        num_multiparts=0,
        num_kept_objects=num_before - len(gone),
        num_kept_bytes=num_bytes_before - num_bytes,
        checkpoints=_by_run(needless.expired),
    )


def list_objects(store: ArtifactStore) -> tuple[list[StoredObject], list[StoredObject]]:
    """All content and all records of a store."""
    by_kind: dict[bool, list[StoredObject]] = {True: [], False: []}
    for found in store.scan(""):
        by_kind[found.key.startswith((PAYLOADS, FOLDERS))].append(found)
    return by_kind[True], by_kind[False]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needless:
    """The manifests of expired checkpoints, the records of expired rollouts and of unused shared results, and content that no
    other record names."""

    expired: list[StoredObject]
    rollouts: list[StoredObject]
    shared: list[StoredObject]
    content: list[StoredObject]

    @property
    def objects(self) -> list[StoredObject]:
        return [*self.expired, *self.rollouts, *self.shared, *self.content]


def _needless(
    records: Records,
    content: Sequence[StoredObject],
    *,
    keep_checkpoints: int | None,
    grace_seconds: float,
    shared_seconds: float,
) -> _Needless:
    expired = records.expired(keep_checkpoints=keep_checkpoints, grace_seconds=grace_seconds)
    rollouts = records.list_expired_rollouts(grace_seconds=grace_seconds)
    shared = records.list_unused_shared(age_seconds=shared_seconds)
    gone = [*expired, *rollouts, *shared]
    unused = _find_unused(content, records.references(without=gone), grace_seconds=grace_seconds)
    if records.damaged:
        known = records.references_in([*expired, *rollouts])
        unused = [found for found in unused if name_of(found.key) in known]
    return _Needless(expired=expired, rollouts=rollouts, shared=shared, content=unused)


def name_of(key: str) -> str:
    """The key that a reference names: the payload itself, or the folder of a file."""
    return "/".join(key.split("/")[:2]) if key.startswith(FOLDERS) else key


def num_bytes_of(objects: Iterable[StoredObject]) -> int:
    """The total size of these objects."""
    return sum(found.num_bytes for found in objects)


def _by_run(expired: Iterable[StoredObject]) -> dict[str, tuple[int, ...]]:
    """**Example** the manifest of the update at step 4 of "r7" is `{"r7": (5,)}`: it wrote the checkpoint after 5 updates."""
    updates: dict[str, set[int]] = defaultdict(set)
    for each in expired:
        _, run_id, _, step, *_ = each.key.split("/")
        updates[run_id].add(int(step) + 1)
    return {run_id: tuple(sorted(steps)) for run_id, steps in sorted(updates.items())}


def _find_unused(
    content: Sequence[StoredObject], referenced: frozenset[str], *, grace_seconds: float
) -> list[StoredObject]:
    """Unreferenced objects. A folder is removed as a whole, when its youngest file is old enough."""
    youngest: dict[str, float] = {}
    for found in content:
        name = name_of(found.key)
        youngest[name] = min(found.age_seconds, youngest.get(name, found.age_seconds))
    unused = {name for name, age_seconds in youngest.items() if age_seconds >= grace_seconds} - referenced
    return [found for found in content if name_of(found.key) in unused]
