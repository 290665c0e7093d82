"""Checkpoints that are still in the store."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.artifacts.local import LocalArtifactStore
from components.runs.available_checkpoints import available_steps, checkpoints_after, format_ranges, is_available
from components.runs.gc import collect_garbage
from tests.tasks.stored_runs import store_run


@pytest.mark.parametrize(
    ("steps", "spelled"),
    [([], ""), ([0], "0"), ([0, 1], "0 to 1"), ([0, 95, 96, 97, 99, 100], "0, 95 to 97, 99 to 100")],
)
def test_steps_are_told_in_stretches(steps: list[int], spelled: str) -> None:
    assert format_ranges(steps) == spelled


@given(st.sets(st.integers(0, 60)).map(sorted))
def test_stretches_name_every_step_and_no_other(steps: list[int]) -> None:
    named: list[int] = []
    for stretch in filter(None, format_ranges(steps).split(", ")):
        first, _, last = stretch.partition(" to ")
        named += range(int(first), int(last or first) + 1)
    assert named == steps


def test_what_gc_removed_is_not_kept(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    run = store_run(tmp_path / "store", "r", num_finished=5)
    assert available_steps(store, run) == [0, 1, 2, 3, 4, 5]
    collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    assert available_steps(store, run) == [0, 4, 5]
    gone, kept = checkpoints_after(store, run, 3), checkpoints_after(store, run, 4)
    assert gone is not None
    assert kept is not None
    assert (is_available(store, gone["team"]), is_available(store, kept["team"])) == (False, True)
    assert checkpoints_after(store, run, 6) is None


def test_a_checkpoint_that_lacks_one_file_is_not_kept(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    run = store_run(tmp_path / "store", "r", num_finished=1)
    checkpoints = checkpoints_after(store, run, 1)
    assert checkpoints is not None
    store.delete(f"{checkpoints['team'].folder.key}/weights")
    assert not is_available(store, checkpoints["team"])


def test_a_run_that_has_not_begun_has_none(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    run = store_run(tmp_path / "store", "r", num_finished=0)
    assert available_steps(store, run) == [0]
    assert available_steps(store, run.model_copy(update={"run_id": "other"})) == []
