"""Garbage collection: old checkpoints, payloads that nothing refers to, and what interrupted writers left.

It removes only what is certainly not needed. A run with a record that cannot be read is left alone, and what that record refers
to is unknown: while there is one, only the files of expired checkpoints are removed, and none that nothing refers to.
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
from components.artifacts.records import damaged, read_as, unsealed
from components.artifacts.refs import Frozen, StageManifest
from components.artifacts.retention import expired_updates
from components.errors import ArtifactCorrupt, ConfigurationError

_REFERENCE = re.compile(rb"payloads/[0-9a-f]{2}/[0-9a-f]{64}|folders/[0-9a-f]{64}")
_LINEAGE = re.compile(r"runs/([^/]+)/lineages/[^/]+")
_UPDATE = re.compile(r"runs/(?P<run>[^/]+)/steps/(?P<step>\d+)/.*")
_UNREAD = re.compile(
    r".*/attempts/[^/]+|runs/[^/]+/(outbox|sessions|flow_runs|history|evaluations|dropped)/.*|index/.*"
)
"""Records that neither keep files nor say what may go."""
_STEP_RECORD = re.compile(r"runs/[^/]+/iterations/.*")
"""The record of a finished step names its checkpoint for good; it does not keep the files."""
_JOURNALLED = re.compile(r".*/(blocks|tools)/[^/]+")
"""They spare work; one that cannot be read is as good as none."""
_RECORD = re.compile(r"runs/[^/]+/.*\.json")
_RUN = re.compile(r"runs/([^/]+)/.*")

_LARGEST_RECORD_BYTES = 16 << 20


class GarbageReport(Frozen):
    """What went, or would go in a dry run, and what stays."""

    num_objects: int
    """Payloads, files of folders and manifests of checkpoints."""
    num_bytes: int
    num_checkpoints: int
    """Manifests of updates that are older than the checkpoints to keep."""
    num_multiparts: int
    """Uploads and files that their writers never finished."""
    num_kept_objects: int
    num_kept_bytes: int
    num_young_objects: int = 0
    """Kept for their youth alone."""
    num_young_bytes: int = 0
    checkpoints: Mapping[str, tuple[int, ...]] = Field(default_factory=dict)
    """run_id -> the numbers of updates after which the checkpoints were left."""
    damaged: Mapping[str, str] = Field(default_factory=dict)
    """run_id -> the record because of which the run was left alone. `_shared` is what several runs share."""

    def document(self) -> dict[str, Any]:
        """The report as plain JSON."""
        return self.model_dump(mode="json")


def collect_garbage(
    store: ArtifactStore, *, keep_checkpoints: int, grace_seconds: float, dry_run: bool
) -> GarbageReport:
    """Remove what no record needs and what is older than `grace_seconds`; what a remaining manifest refers to stays.

    Choose a grace above the longest stage and an hour: a stage's payloads are unreferenced until it commits, and a payload
    found in place is taken for fresh during its first hour. Manifests go before the files, so a crash in between leaves
    garbage for the next call. References are looked for in records, never inside payloads. Nothing is written.
    """
    if keep_checkpoints < 1:
        raise ConfigurationError(f"keep_checkpoints {keep_checkpoints}: a run needs at least its newest to go on")
    objects = list(store.scan(""))
    content = [found for found in objects if found.key.startswith((PAYLOADS, FOLDERS))]
    records = Records(store, [found for found in objects if not found.key.startswith((PAYLOADS, FOLDERS))])
    expired, unused = _needless(records, content, keep_checkpoints=keep_checkpoints, grace_seconds=grace_seconds)
    too_young = [*itertools.chain(*_needless(records, content, keep_checkpoints=keep_checkpoints, grace_seconds=0))]
    if not dry_run:
        store.delete_all([found.key for found in expired])
        store.delete_all([found.key for found in unused])
    num_unfinished = store.discard_unfinished(older_than_seconds=grace_seconds, dry_run=dry_run)
    gone = [*expired, *unused]
    return GarbageReport(
        num_objects=len(gone),
        num_bytes=num_bytes_of(gone),
        num_checkpoints=len(expired),
        num_multiparts=num_unfinished,
        num_kept_objects=len(objects) - len(gone),
        num_kept_bytes=num_bytes_of(objects) - num_bytes_of(gone),
        num_young_objects=len(too_young) - len(gone),
        num_young_bytes=num_bytes_of(too_young) - num_bytes_of(gone),
        checkpoints=_by_run(expired),
        damaged=records.damaged,
    )


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
    """The records of a store, read once, side by side."""

    def __init__(self, store: ArtifactStore, found: Sequence[StoredObject]) -> None:
        self._found = found
        self._contents = self._read(store, [each for each in found if not _UNREAD.fullmatch(each.key)])
        if self.damaged:
            # Whatever else names a file of theirs keeps it.
            of_damaged = [each for each in found if _run(each.key) in self.damaged and each.key not in self._contents]
            self._contents |= self._read(store, of_damaged)

    @cached_property
    def damaged(self) -> dict[str, str]:
        """run_id -> the first record of it that cannot be read."""
        found: dict[str, str] = {}
        for key, content in self._contents.items():
            try:
                _check(key, content)
            except ArtifactCorrupt as error:
                found.setdefault(_run(key), str(error))
        return found

    def expired(self, *, keep_checkpoints: int, grace_seconds: float) -> list[StoredObject]:
        """The manifests of expired checkpoints, of runs whose records can all be read."""
        restarts: dict[str, list[int]] = defaultdict(list)
        for key, content in self._contents.items():
            if (match := _LINEAGE.fullmatch(key)) and match[1] not in self.damaged:
                restarts[match[1]].append(int(unsealed(key, content)["from_step"]))
        keys = [each.key for each in self._found if _run(each.key) not in self.damaged]
        expired = expired_updates(keys, keep_checkpoints=keep_checkpoints, restarts=restarts)
        return [each for each in self._found if each.key in expired and each.age_seconds >= grace_seconds]

    def references(self, *, without: Iterable[StoredObject]) -> frozenset[str]:
        """The keys of payloads and folders that the other records keep."""
        gone = {each.key for each in without}
        keeping = [
            content
            for key, content in self._contents.items()
            if key not in gone and (_run(key) in self.damaged or not _STEP_RECORD.fullmatch(key))
        ]
        return referred_to(keeping)

    def references_in(self, records: Iterable[StoredObject]) -> frozenset[str]:
        """The keys of payloads and folders that these records name."""
        return referred_to(self._contents[each.key] for each in records)

    @staticmethod
    def _read(store: ArtifactStore, found: Iterable[StoredObject]) -> dict[str, bytes]:
        def read(key: str) -> bytes | None:
            try:
                return store.read(key)
            except ArtifactCorrupt:
                return b""  # no record either

        keys = [each.key for each in found if each.num_bytes <= _LARGEST_RECORD_BYTES]
        contents = zip(keys, in_parallel(read, keys), strict=True)
        return {key: content for key, content in contents if content is not None}


def _check(key: str, content: bytes) -> None:
    """Raise ArtifactCorrupt for a record without which nobody knows what its run needs. A stranger's file is none."""
    if not _RECORD.fullmatch(key) or _JOURNALLED.fullmatch(key):
        return
    if key.endswith("/manifest.json"):
        read_as(key, content, StageManifest)
    elif not isinstance(unsealed(key, content).get("from_step", 0), int):
        raise damaged(key, "its from_step is no number")


def referred_to(contents: Iterable[bytes]) -> frozenset[str]:
    return frozenset(key.decode() for content in contents for key in _REFERENCE.findall(content))


def _run(key: str) -> str:
    """The run that a record belongs to, "" for none."""
    match = _RUN.fullmatch(key)
    return match[1] if match else ""


def _by_run(expired: Iterable[StoredObject]) -> dict[str, tuple[int, ...]]:
    """**Example** the manifest of the update at step 4 of "r7" is `{"r7": (5,)}`: it left the checkpoint after 5 updates."""
    updates: dict[str, set[int]] = defaultdict(set)
    for each in expired:
        match = _UPDATE.fullmatch(each.key)
        assert match is not None, f"{each.key} is no update"
        updates[match["run"]].add(int(match["step"]) + 1)
    return {run_id: tuple(sorted(steps)) for run_id, steps in sorted(updates.items())}


def _unused(content: Sequence[StoredObject], referenced: frozenset[str], *, grace_seconds: float) -> list[StoredObject]:
    """Objects that nothing refers to. A folder goes as a whole, when its youngest file is old enough."""
    youngest: dict[str, float] = {}
    for found in content:
        name = name_of(found.key)
        youngest[name] = min(found.age_seconds, youngest.get(name, found.age_seconds))
    return [
        found
        for found in content
        if name_of(found.key) not in referenced and youngest[name_of(found.key)] >= grace_seconds
    ]


def name_of(key: str) -> str:
    """The key that a reference names: the payload itself, or the folder of a file."""
    return "/".join(key.split("/")[:2]) if key.startswith(FOLDERS) else key


def num_bytes_of(objects: Iterable[StoredObject]) -> int:
    return sum(found.num_bytes for found in objects)
