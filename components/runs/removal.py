"""Removal of a run or of a dropped restart: its records, and the content that no other record refers to."""

import re
from collections.abc import Callable, Set
from dataclasses import dataclass

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.layout import REUSE_SECONDS
from components.frozen import Frozen
from components.identity import config_key
from components.runs.gc import list_objects, name_of, num_bytes_of
from components.runs.gc_records import Records
from components.runs.lineages import index_key
from components.runs.session_records import SESSION_START


class RemovalReport(Frozen):
    """What a removal removed and what it kept."""

    num_records: int
    num_objects: int
    """Payloads and files of folders."""
    num_bytes: int
    """Of records and objects."""
    num_shared_objects: int
    """Kept because other records refer to them too."""
    num_young_objects: int
    """Kept for `troupe gc`, because another session may be about to refer to them."""
    num_unsure_objects: int
    """Kept because unreadable records may refer to them, until these are repaired or removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What would be removed. `open_sessions` are the start records of all sessions of the store without an end."""

    run_id: str
    records: tuple[StoredObject, ...]
    unshared: tuple[StoredObject, ...]
    num_shared_objects: int
    num_unsure_objects: int
    open_sessions: tuple[str, ...]


def removal_of_run(store: ArtifactStore, run_id: str) -> Removal:
    """The removal of a whole run, or of what is left of it after an interrupted removal. Changes nothing."""
    own = f"runs/{run_id}/"
    return _removal(store, run_id, lambda key: key.startswith(own) or key == index_key(run_id))


def removal_of_lineage(store: ArtifactStore, run_id: str, lineage: int) -> Removal:
    """The removal of what a restart wrote; the record of the restart itself stays."""
    own = re.compile(
        rf"runs/{re.escape(run_id)}/("
        rf"(steps|evaluations)/[^/]+/[^/]+/[^/]+/l{lineage}-.+|(iterations|initial|outbox)/[^/]+-l{lineage}\.(json|published))"
    )
    return _removal(store, run_id, lambda key: own.fullmatch(key) is not None)


def remove(store: ArtifactStore, removal: Removal, *, spare_young: bool) -> RemovalReport:
    """Execute a removal. After an interruption, plan and execute it again.

    A run's configuration is deleted first, so that it is listed as a whole or not at all, and its other records last, so that
    a second attempt still knows its content. `spare_young` keeps content that was written or reused during the last hour: a
    session that works on another run may be about to refer to it.
    """
    listing = {config_key(removal.run_id), index_key(removal.run_id)}
    young = [found for found in removal.unshared if spare_young and found.age_seconds < REUSE_SECONDS]
    content = [found for found in removal.unshared if found not in young]
    for key in sorted(listing & {found.key for found in removal.records}, reverse=True):
        store.delete(key)
    store.delete_all([found.key for found in content])
    store.delete_all([found.key for found in removal.records if found.key not in listing])
    return RemovalReport(
        num_records=len(removal.records),
        num_objects=len(content),
        num_bytes=num_bytes_of([*removal.records, *content]),
        num_shared_objects=removal.num_shared_objects,
        num_young_objects=len(young),
        num_unsure_objects=removal.num_unsure_objects,
    )


def _removal(store: ArtifactStore, run_id: str, is_custom: Callable[[str], bool]) -> Removal:
    content, records = list_objects(store)
    own = [found for found in records if is_custom(found.key)]
    others = Records(store, [found for found in records if not is_custom(found.key)])
    named, needed = Records(store, own).references(), others.references()
    candidates = [found for found in content if name_of(found.key) in named]
    unshared = [found for found in candidates if name_of(found.key) not in needed]
    unsure = unshared if others.damaged else []
    return Removal(
        run_id=run_id,
        records=tuple(own),
        unshared=() if unsure else tuple(unshared),
        num_shared_objects=len(candidates) - len(unshared),
        num_unsure_objects=len(unsure),
        open_sessions=_open_sessions({found.key for found in records}),
    )


def _open_sessions(keys: Set[str]) -> tuple[str, ...]:
    starts = sorted(filter(SESSION_START.fullmatch, keys))
    return tuple(key for key in starts if key.replace("start.json", "end.json") not in keys)
