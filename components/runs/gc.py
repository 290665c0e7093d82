"""Garbage collection: expired checkpoints, unreferenced payloads, and leftovers of interrupted writers.

It removes only what is certainly not needed. A run with an unreadable record is left alone, and the references in that record
are unknown: while there is one, only the files of expired checkpoints are removed, not other unreferenced content.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import Field

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.layout import FOLDERS, PAYLOADS
from components.artifacts.parallel import in_parallel
from components.artifacts.records import damaged, read_as, verified
from components.artifacts.refs import StageManifest
from components.errors import ArtifactCorrupt, ConfigurationError
from components.frozen import Frozen
from components.runs.retention import expired_updates

_REFERENCE = re.compile(rb"payloads/[0-9a-f]{2}/[0-9a-f]{64}|folders/[0-9a-f]{64}")
_LINEAGE = re.compile(r"runs/([^/]+)/lineages/[^/]+")
_UNREAD = re.compile(
    r".*/attempts/[^/]+|runs/[^/]+/(outbox|sessions|flow_runs|history|evaluations|dropped)/.*|index/.*"
)
"""Records that keep no files and decide no retention."""
_STEP_RECORD = re.compile(r"runs/[^/]+/iterations/.*")
"""The record of a finished step names its checkpoint for good; it does not keep the files."""
_JOURNALLED = re.compile(r".*/(blocks|tools)/[^/]+")
"""They save work; an unreadable one is treated as missing."""
_RECORD = re.compile(r"runs/[^/]+/.*\.json")
_RUN = re.compile(r"runs/([^/]+)/.*")

_LARGEST_RECORD_BYTES = 16 << 20


class GarbageReport(Frozen):
    """What was removed, or would be in a dry run, and what is kept."""

    num_objects: int
    """Payloads, files of folders, and manifests of checkpoints."""
    num_bytes: int
    num_checkpoints: int
    """Manifests of expired updates."""
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
    store: ArtifactStore, *, keep_checkpoints: int, grace_seconds: float, dry_run: bool
) -> GarbageReport:
    """Remove what no record needs and what is older than `grace_seconds`; content of the remaining manifests stays.

    Choose a grace above the longest stage plus an hour: a stage's payloads are unreferenced until it commits, and existing
    payloads are reused during their first hour. Manifests are deleted before the files, so a crash in between leaves garbage
    for the next call. References are searched in records, never inside payloads. Nothing is written.
    """
    if keep_checkpoints < 1:
        raise ConfigurationError(f"keep_checkpoints {keep_checkpoints}: a run needs at least its newest to go on")
    content, found = listed(store)
    records = Records(store, found)
    expired, unused = _needless(records, content, keep_checkpoints=keep_checkpoints, grace_seconds=grace_seconds)
    too_young = [*itertools.chain(*_needless(records, content, keep_checkpoints=keep_checkpoints, grace_seconds=0))]
    if not dry_run:
        store.delete_all([each.key for each in expired])
        store.delete_all([each.key for each in unused])
    num_unfinished = store.discard_unfinished(older_than_seconds=grace_seconds, dry_run=dry_run)
    gone, num_bytes = [*expired, *unused], num_bytes_of([*expired, *unused])
    return GarbageReport(
        num_objects=len(gone),
        num_bytes=num_bytes,
        num_checkpoints=len(expired),
        num_multiparts=num_unfinished,
        num_kept_objects=len(content) + len(found) - len(gone),
        num_kept_bytes=num_bytes_of([*content, *found]) - num_bytes,
        num_young_objects=len(too_young) - len(gone),
        num_young_bytes=num_bytes_of(too_young) - num_bytes,
        checkpoints=_by_run(expired),
        damaged=records.damaged,
    )


def listed(store: ArtifactStore) -> tuple[list[StoredObject], list[StoredObject]]:
    """All content and all records of a store."""
    by_kind: dict[bool, list[StoredObject]] = {True: [], False: []}
    for found in store.scan(""):
        by_kind[found.key.startswith((PAYLOADS, FOLDERS))].append(found)
    return by_kind[True], by_kind[False]


def _needless(
    records: "Records", content: Sequence[StoredObject], *, keep_checkpoints: int, grace_seconds: float
) -> tuple[list[StoredObject], list[StoredObject]]:
    """The manifests of expired checkpoints, and the content that no other record refers to."""
    expired = records.expired(keep_checkpoints=keep_checkpoints, grace_seconds=grace_seconds)
    unused = _unused(content, records.references(without=expired), grace_seconds=grace_seconds)
    if records.damaged:
        known = records.references_in(expired)
        unused = [found for found in unused if name_of(found.key) in known]
    return expired, unused


class Records:
    """The records of a store, read once, concurrently."""

    def __init__(self, store: ArtifactStore, found: Sequence[StoredObject]) -> None:
        self._found = found
        self._contents = _read(store, [each for each in found if not _UNREAD.fullmatch(each.key)])
        if self.damaged:
            # Any other record of these runs that names a file keeps it.
            of_damaged = [each for each in found if _run(each.key) in self.damaged and each.key not in self._contents]
            self._contents |= _read(store, of_damaged)

    @cached_property
    def damaged(self) -> dict[str, str]:
        """run_id -> its first unreadable record."""
        found: dict[str, str] = {}
        for key, content in self._contents.items():
            try:
                _check(key, content)
            except ArtifactCorrupt as error:
                found.setdefault(_run(key), str(error))
        return found

    def expired(self, *, keep_checkpoints: int, grace_seconds: float) -> list[StoredObject]:
        """The manifests of expired checkpoints, of runs without unreadable records."""
        restarts: dict[str, list[int]] = defaultdict(list)
        for key, content in self._contents.items():
            if (match := _LINEAGE.fullmatch(key)) and match[1] not in self.damaged:
                restarts[match[1]].append(int(verified(key, content)["from_step"]))
        keys = [each.key for each in self._found if _run(each.key) not in self.damaged]
        expired = expired_updates(keys, keep_checkpoints=keep_checkpoints, restarts=restarts)
        return [each for each in self._found if each.key in expired and each.age_seconds >= grace_seconds]

    def references(self, *, without: Iterable[StoredObject] = ()) -> frozenset[str]:
        """The keys of payloads and folders that the other records keep."""
        gone = {each.key for each in without}
        return _references(
            content
            for key, content in self._contents.items()
            if key not in gone and (_run(key) in self.damaged or not _STEP_RECORD.fullmatch(key))
        )

    def references_in(self, records: Iterable[StoredObject]) -> frozenset[str]:
        """The keys of payloads and folders that these records name."""
        return _references(self._contents[each.key] for each in records)


def name_of(key: str) -> str:
    """The key that a reference names: the payload itself, or the folder of a file."""
    return "/".join(key.split("/")[:2]) if key.startswith(FOLDERS) else key


def num_bytes_of(objects: Iterable[StoredObject]) -> int:
    """The total size of these objects."""
    return sum(found.num_bytes for found in objects)


def _read(store: ArtifactStore, found: Iterable[StoredObject]) -> dict[str, bytes]:
    def read(key: str) -> bytes | None:
        try:
            return store.read(key)
        except ArtifactCorrupt:
            return b""  # no valid record either

    keys = [each.key for each in found if each.num_bytes <= _LARGEST_RECORD_BYTES]
    contents = zip(keys, in_parallel(read, keys), strict=True)
    return {key: content for key, content in contents if content is not None}


def _check(key: str, content: bytes) -> None:
    """Raise ArtifactCorrupt for an unreadable record that says what its run needs. Foreign files pass."""
    if not _RECORD.fullmatch(key) or _JOURNALLED.fullmatch(key):
        return
    if key.endswith("/manifest.json"):
        read_as(key, content, StageManifest)
    elif not isinstance(verified(key, content).get("from_step", 0), int):
        raise damaged(key, "its from_step is not a number")


def _references(contents: Iterable[bytes]) -> frozenset[str]:
    return frozenset(key.decode() for content in contents for key in _REFERENCE.findall(content))


def _run(key: str) -> str:
    """The run that a record belongs to, "" for none."""
    match = _RUN.fullmatch(key)
    return match[1] if match else ""


def _by_run(expired: Iterable[StoredObject]) -> dict[str, tuple[int, ...]]:
    """**Example** the manifest of the update at step 4 of "r7" is `{"r7": (5,)}`: it wrote the checkpoint after 5 updates."""
    updates: dict[str, set[int]] = defaultdict(set)
    for each in expired:
        _, run_id, _, step, *_ = each.key.split("/")
        updates[run_id].add(int(step) + 1)
    return {run_id: tuple(sorted(steps)) for run_id, steps in sorted(updates.items())}


def _unused(content: Sequence[StoredObject], referenced: frozenset[str], *, grace_seconds: float) -> list[StoredObject]:
    """Unreferenced objects. A folder is removed as a whole, when its youngest file is old enough."""
    youngest: dict[str, float] = {}
    for found in content:
        name = name_of(found.key)
        youngest[name] = min(found.age_seconds, youngest.get(name, found.age_seconds))
    unused = {name for name, age_seconds in youngest.items() if age_seconds >= grace_seconds} - referenced
    return [found for found in content if name_of(found.key) in unused]
