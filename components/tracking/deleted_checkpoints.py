"""Marks in the tracker the checkpoints whose files are gone.

Each call compares the outbox with the folders in the store, so neither the time of a removal nor the tracker's answer at that
time matters. `<step>-checkpoint-<digest>.removed` beside an outbox entry says that the tracker has the mark.
"""

import re
from collections.abc import Callable, Set
from dataclasses import dataclass

from pydantic import ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.layout import FOLDERS
from components.artifacts.parallel import in_parallel
from components.artifacts.records import read_as, with_digest
from components.errors import ArtifactCorrupt, PermanentError, TrackingUnavailable
from components.tracking.base import TeamCheckpoint, Tracker
from components.tracking.outbox import OutboxEntry

_CHECKPOINT = re.compile(r"runs/[^/]+/outbox/(?P<name>\d+-checkpoint-.+)\.(?P<ending>json|published|removed)")
_FOLDER = re.compile(rf"{FOLDERS}[0-9a-f]{{64}}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedFiles:
    """How many registered checkpoints were marked, and how many were not because of `error`."""

    num_marked: int = 0
    num_unmarked: int = 0
    error: str | None = None


def folders_there(store: ArtifactStore) -> frozenset[str]:
    """The keys of the folders with at least one file in the store."""
    return frozenset("/".join(key.split("/")[:2]) for key in store.list(FOLDERS))


def mark_removed(store: ArtifactStore, run_id: str, tracker: Callable[[], Tracker], folders: Set[str]) -> MarkedFiles:
    """Mark the published checkpoints of a run whose files were removed, or restored, since the last mark.

    `folders` are those in the store. `tracker` is called only if there is something to mark. Its errors end the attempt and
    are reported, not raised.
    """
    endings: dict[str, set[str]] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, store.list(f"runs/{run_id}/outbox/"))):
        endings.setdefault(match["name"], set()).add(match["ending"])
    published = sorted(name for name, found in endings.items() if found >= {"json", "published"})
    checkpoints = in_parallel(lambda name: _checkpoint(store, f"runs/{run_id}/outbox/{name}.json"), published)
    due = []
    for name, checkpoint in zip(published, checkpoints, strict=True):
        are_there = None if checkpoint is None else _are_there(checkpoint, folders)
        if checkpoint is not None and are_there is not None and are_there == ("removed" in endings[name]):
            due.append((name, checkpoint, are_there))
    for num_marked, (name, checkpoint, are_there) in enumerate(due):
        key = f"runs/{run_id}/outbox/{name}.removed"
        try:
            tracker().mark_files(run_id, checkpoint, are_there=are_there)
            if are_there:
                store.delete(key)
            else:
                store.create(key, with_digest({}))
        except (TrackingUnavailable, PermanentError) as error:
            return MarkedFiles(num_marked=num_marked, num_unmarked=len(due) - num_marked, error=str(error))
    return MarkedFiles(num_marked=len(due))


def _are_there(checkpoint: TeamCheckpoint, folders: Set[str]) -> bool | None:
    """Whether the folders of all policies are in the store; None if their addresses are not those of a store's folders."""
    found = [_FOLDER.search(files.folder_uri) for files in checkpoint.policies.values()]
    return None if None in found else all(match[0] in folders for match in found if match)


def _checkpoint(store: ArtifactStore, key: str) -> TeamCheckpoint | None:
    """The checkpoint of an outbox entry; None if it is gone or damaged, or of a Troupe that registered policies singly."""
    content = store.read(key)
    try:
        return None if content is None else TeamCheckpoint.model_validate(read_as(key, content, OutboxEntry).report)
    except (ArtifactCorrupt, ValidationError):
        return None
