"""The tracker is told of removed files as soon as it answers."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef
from components.tracking.deleted_checkpoints import MarkedFiles, folders_there, mark_removed
from components.tracking.outbox import Outbox
from tests.components.tracking.memory import InMemoryTracker
from tests.components.tracking.reports import team


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "store")


def publish(store: LocalArtifactStore, tracker: InMemoryTracker, folder: Path) -> list[ArtifactRef]:
    """Three registered checkpoints."""
    outbox, refs = Outbox(store, "r"), []
    folder.mkdir()
    for step in (1, 2, 3):
        (folder / "weights.bin").write_text(f"weights {step}")
        refs.append(store.put_folder(folder))
        outbox.post_checkpoint(team(step, f"{step:x}" * 64, folder=store.folder_uri(refs[-1])))
    assert outbox.drain(tracker).num_pending == 0
    return refs


def files(tracker: InMemoryTracker) -> dict[int, bool]:
    return {each.team.step: each.files_are_there for each in tracker.runs["r"].checkpoints}


def test_what_was_removed_is_marked_once_and_unmarked_when_it_is_back(
    store: LocalArtifactStore, tmp_path: Path
) -> None:
    tracker = InMemoryTracker()
    refs = publish(store, tracker, tmp_path / "c")
    assert mark_removed(store, "r", lambda: tracker, folders_there(store)) == MarkedFiles()
    kept = (tmp_path / "store" / refs[0].key / "weights.bin").read_bytes()
    for ref in refs[:2]:
        store.delete(f"{ref.key}/weights.bin")
    assert mark_removed(store, "r", lambda: tracker, folders_there(store)).num_marked == 2
    assert files(tracker) == {1: False, 2: False, 3: True}
    assert mark_removed(store, "r", lambda: tracker, folders_there(store)).num_marked == 0
    store.create(f"{refs[0].key}/weights.bin", kept)
    assert mark_removed(store, "r", lambda: tracker, folders_there(store)).num_marked == 1
    assert files(tracker) == {1: True, 2: False, 3: True}
    assert mark_removed(store, "r", lambda: tracker, folders_there(store)).num_marked == 0


def test_a_tracker_that_is_away_is_told_the_next_time(store: LocalArtifactStore, tmp_path: Path) -> None:
    tracker = InMemoryTracker()
    refs = publish(store, tracker, tmp_path / "c")
    for ref in refs[:2]:
        store.delete(f"{ref.key}/weights.bin")
    tracker.available = False
    missed = mark_removed(store, "r", lambda: tracker, folders_there(store))
    assert (missed.num_marked, missed.num_unmarked) == (0, 2)
    assert missed.error
    tracker.available = True
    assert mark_removed(store, "r", lambda: tracker, folders_there(store)).num_marked == 2


def test_what_was_not_published_or_cannot_be_read_is_passed_over(store: LocalArtifactStore) -> None:
    Outbox(store, "r").post_checkpoint(team(1, "aa", folder=f"s3://b/folders/{0:064x}"))
    store.create("runs/r/outbox/000002-checkpoint-team-bb.json", b"{")
    store.create("runs/r/outbox/000002-checkpoint-team-bb.published", b"1")

    def must_not_be_asked() -> InMemoryTracker:
        raise AssertionError("there is nothing to tell")

    assert mark_removed(store, "r", must_not_be_asked, frozenset()) == MarkedFiles()
