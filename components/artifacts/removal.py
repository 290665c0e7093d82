"""Removing a run, or a restart that was dropped: its records, and of their content what no other record refers to."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.gc import Records, name_of, num_bytes_of
from components.artifacts.layout import FOLDERS, PAYLOADS, REUSE_SECONDS
from components.artifacts.refs import Frozen
from components.artifacts.runs import index_key
from components.identity import config_key

_SESSION = re.compile(r"runs/[^/]+/sessions/[^/]+/(start|end)\.json")


class RemovalReport(Frozen):
    """What a removal took away and what it left."""

    num_records: int
    num_objects: int
    """Payloads and files of folders."""
    num_bytes: int
    """Of records and objects."""
    num_shared_objects: int
    """What other records refer to, too; it stays."""
    num_young_objects: int
    """What another session may be about to refer to; it stays for `troupe gc`."""
    num_unsure_objects: int
    """What records that cannot be read may refer to; it stays until these are mended or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What would go. `open_sessions` are the start records of all sessions of the store that have no end."""

    run_id: str
    records: tuple[StoredObject, ...]
    unshared: tuple[StoredObject, ...]
    num_shared_objects: int
    num_unsure_objects: int
    open_sessions: tuple[str, ...]


def removal_of_run(store: ArtifactStore, run_id: str) -> Removal:
    """The removal of a whole run, or of what an interrupted removal has left of it. Nothing is changed."""
    own = f"runs/{run_id}/"
    return _removal(store, run_id, lambda key: key.startswith(own) or key == index_key(run_id))


def removal_of_lineage(store: ArtifactStore, run_id: str, lineage: int) -> Removal:
    """The removal of what a restart left; the record of the restart itself stays."""
    own = re.compile(
        rf"runs/{re.escape(run_id)}/("
        rf"(steps|evaluations)/[^/]+/[^/]+/[^/]+/l{lineage}-.+|(iterations|outbox)/[^/]+-l{lineage}\.(json|published))"
    )
    return _removal(store, run_id, lambda key: own.fullmatch(key) is not None)


def remove(store: ArtifactStore, removal: Removal, *, spare_young: bool) -> RemovalReport:
    """Carry a removal out. Interrupted, it is finished by planning it and carrying it out again.

    A run's configuration goes first, so that it is listed as a whole or not at all, and its other records last, so that a
    second attempt still knows its content. `spare_young` leaves content that was written or found in place during the last
    hour: a session that works on another run may be about to refer to it.
    """
    last_seen = {config_key(removal.run_id), index_key(removal.run_id)}
    young = [found for found in removal.unshared if spare_young and found.age_seconds < REUSE_SECONDS]
    content = [found for found in removal.unshared if found not in young]
    for key in sorted(last_seen & {found.key for found in removal.records}, reverse=True):
        store.delete(key)
    store.delete_all([found.key for found in content])
    store.delete_all([found.key for found in removal.records if found.key not in last_seen])
    return RemovalReport(
        num_records=len(removal.records),
        num_objects=len(content),
        num_bytes=num_bytes_of([*removal.records, *content]),
        num_shared_objects=removal.num_shared_objects,
        num_young_objects=len(young),
        num_unsure_objects=removal.num_unsure_objects,
    )


def _removal(store: ArtifactStore, run_id: str, is_own: Callable[[str], bool]) -> Removal:
    objects = list(store.scan(""))
    content = [found for found in objects if found.key.startswith((PAYLOADS, FOLDERS))]
    records = [found for found in objects if not found.key.startswith((PAYLOADS, FOLDERS))]
    own = [found for found in records if is_own(found.key)]
    named = Records(store, own).references(without=())
    others = Records(store, [found for found in records if not is_own(found.key)])
    candidates = [found for found in content if name_of(found.key) in named]
    needed = others.references(without=())
    unshared = [found for found in candidates if name_of(found.key) not in needed]
    unsure = unshared if others.damaged else []
    return Removal(
        run_id=run_id,
        records=tuple(own),
        unshared=() if unsure else tuple(unshared),
        num_shared_objects=len(candidates) - len(unshared),
        num_unsure_objects=len(unsure),
        open_sessions=_open_sessions([found.key for found in records]),
    )


def _open_sessions(keys: Sequence[str]) -> tuple[str, ...]:
    ended = {key.removesuffix("end.json") for key in keys if key.endswith("/end.json")}
    starts = [key for key in keys if _SESSION.fullmatch(key) and key.endswith("/start.json")]
    return tuple(key for key in starts if key.removesuffix("start.json") not in ended)
