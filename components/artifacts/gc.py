"""Garbage collection: old checkpoints, payloads that nothing refers to, and what interrupted writers left."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.layout import FOLDERS, PAYLOADS
from components.artifacts.refs import Frozen
from components.artifacts.retention import expired_updates
from components.errors import ConfigurationError

_REFERENCE = re.compile(rb"payloads/[0-9a-f]{2}/[0-9a-f]{64}|folders/[0-9a-f]{64}")
_LINEAGE = re.compile(r"runs/([^/]+)/lineages/[^/]+")
_HOLDS_NO_REFERENCE = re.compile(r".*/attempts/[^/]+|runs/[^/]+/(iterations|outbox)/.*")
"""The record of a finished step and the report of its checkpoint name them for good; they do not keep their files."""

_LARGEST_RECORD_BYTES = 16 << 20
_NUM_THREADS = 8


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

    def document(self) -> dict[str, Any]:
        """The report as plain JSON."""
        return self.model_dump(mode="json")


def collect_garbage(
    store: ArtifactStore, *, keep_checkpoints: int, grace_seconds: float, dry_run: bool
) -> GarbageReport:
    """Remove what no record needs and what is older than `grace_seconds`; what a remaining manifest refers to stays.

    Choose a grace above the longest stage and an hour: a stage's payloads are unreferenced until it commits, and a payload
    found in place is taken for fresh during its first hour. Manifests go before the files, so a crash in between leaves
    garbage for the next call. References are looked for in records, never inside payloads.
    """
    if keep_checkpoints < 1:
        raise ConfigurationError(f"keep_checkpoints {keep_checkpoints}: a run needs at least its newest to go on")
    objects = list(store.scan(""))
    content = [found for found in objects if found.key.startswith((PAYLOADS, FOLDERS))]
    records = [found for found in objects if not found.key.startswith((PAYLOADS, FOLDERS))]
    expired = _expired(store, records, keep_checkpoints=keep_checkpoints, grace_seconds=grace_seconds)
    referenced = _references(store, [found for found in records if found not in expired])
    unused = _unused(content, referenced, grace_seconds=grace_seconds)
    if not dry_run:
        _in_parallel(store.delete, [found.key for found in expired])
        _in_parallel(store.delete, [found.key for found in unused])
    num_unfinished = store.discard_unfinished(older_than_seconds=grace_seconds, dry_run=dry_run)
    gone = [*expired, *unused]
    return GarbageReport(
        num_objects=len(gone),
        num_bytes=_num_bytes(gone),
        num_checkpoints=len(expired),
        num_multiparts=num_unfinished,
        num_kept_objects=len(objects) - len(gone),
        num_kept_bytes=_num_bytes(objects) - _num_bytes(gone),
    )


def _expired(
    store: ArtifactStore, records: Sequence[StoredObject], *, keep_checkpoints: int, grace_seconds: float
) -> list[StoredObject]:
    """The manifests of checkpoints that have had their time."""
    keys = [found.key for found in records]
    expired = expired_updates(keys, keep_checkpoints=keep_checkpoints, restarts=_restarts(store, keys))
    return [found for found in records if found.key in expired and found.age_seconds >= grace_seconds]


def _restarts(store: ArtifactStore, keys: Iterable[str]) -> Mapping[str, list[int]]:
    """The steps from which each run was restarted."""
    restarts: dict[str, list[int]] = defaultdict(list)
    for match in filter(None, map(_LINEAGE.fullmatch, keys)):
        if (content := store.read(match[0])) is not None:
            restarts[match[1]].append(int(json.loads(content)["from_step"]))
    return restarts


def _references(store: ArtifactStore, records: Iterable[StoredObject]) -> frozenset[str]:
    """The keys of payloads and folders that occur in any record."""
    keys = [
        found.key
        for found in records
        if found.num_bytes <= _LARGEST_RECORD_BYTES and not _HOLDS_NO_REFERENCE.fullmatch(found.key)
    ]
    contents = _in_parallel(store.read, keys)
    return frozenset(key.decode() for content in contents if content for key in _REFERENCE.findall(content))


def _unused(content: Sequence[StoredObject], referenced: frozenset[str], *, grace_seconds: float) -> list[StoredObject]:
    """Objects that nothing refers to. A folder goes as a whole, when its youngest file is old enough."""
    youngest: dict[str, float] = {}
    for found in content:
        name = _artifact(found.key)
        youngest[name] = min(found.age_seconds, youngest.get(name, found.age_seconds))
    return [
        found
        for found in content
        if _artifact(found.key) not in referenced and youngest[_artifact(found.key)] >= grace_seconds
    ]


def _artifact(key: str) -> str:
    """The key that a reference names: the payload itself, or the folder of a file."""
    return "/".join(key.split("/")[:2]) if key.startswith(FOLDERS) else key


def _num_bytes(objects: Iterable[StoredObject]) -> int:
    return sum(found.num_bytes for found in objects)


def _in_parallel(work: Callable[[str], Any], keys: Sequence[str]) -> list[Any]:
    with ThreadPoolExecutor(max_workers=_NUM_THREADS) as pool:
        return list(pool.map(work, keys))
