"""A block is recorded once, whole or not at all."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.errors import StoreUnavailable
from components.rollout.journal import FinishedBlock, Journal
from components.schema import Episode, ExecutionResult, Passage, Problem, ToolRecord


def block_of(name: str) -> FinishedBlock:
    problem = Problem(problem_id=name, environment="toy", payload={"rows": ["..#"], "start": [0, 1]})
    ended = ExecutionResult(status="ok", stdout=name, stderr="", exit_code=0, wall_seconds=0.1, cpu_seconds=0.05)
    return FinishedBlock(
        episodes=(Episode(problem=problem, episode=0, nodes=(), success=False, error="broke"),),
        tools=ToolRecord(executions={"9f": ended}, passages={"3c": (Passage(title=name, text="x", score=1.5),)}),
    )


def must_not_play() -> FinishedBlock:
    raise AssertionError("a recorded block was played again")


def test_a_recorded_block_is_read_and_not_played(tmp_path: Path) -> None:
    journal = Journal(LocalArtifactStore(tmp_path), "runs/r/a")
    assert journal.block(0, lambda: block_of("a")) == block_of("a")
    assert journal.block(1, lambda: block_of("b")) == block_of("b")
    again = Journal(LocalArtifactStore(tmp_path), "runs/r/a")
    assert again.block(0, must_not_play) == block_of("a")
    assert again.block(1, must_not_play) == block_of("b")
    assert Journal(LocalArtifactStore(tmp_path), "runs/r/b").block(0, lambda: block_of("c")) == block_of("c")


def test_the_loser_of_a_race_takes_the_block_of_the_winner(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)

    def overtaken() -> FinishedBlock:
        Journal(store, "runs/r/a").block(0, lambda: block_of("winner"))
        return block_of("loser")

    assert Journal(store, "runs/r/a").block(0, overtaken) == block_of("winner")


def test_a_block_whose_record_was_not_written_is_played_again(tmp_path: Path) -> None:
    class FailsOnce(LocalArtifactStore):
        def create(self, key: str, content: bytes) -> bool:
            raise StoreUnavailable("503")

    with pytest.raises(StoreUnavailable):
        Journal(FailsOnce(tmp_path), "runs/r/a").block(0, lambda: block_of("lost"))
    assert Journal(LocalArtifactStore(tmp_path), "runs/r/a").block(0, lambda: block_of("new")) == block_of("new")


def test_a_record_without_its_payload_is_played_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = LocalArtifactStore(tmp_path)
    Journal(store, "runs/r/a").block(0, lambda: block_of("a"))
    for key in [key for key in store.list("") if not key.startswith("runs/")]:
        store.delete(key)
    journal = Journal(store, "runs/r/a")
    assert journal.block(0, lambda: block_of("a")) == block_of("a")
    assert len(caplog.records) == 1
    assert "runs/r/a/blocks/000000.json: this block cannot be read and is played again" in caplog.text
    assert Journal(store, "runs/r/a").block(0, must_not_play) == block_of("a"), "equal bytes heal the payload"


@pytest.mark.parametrize("content", [b"", b'{"kind": "Fini', b"[]", b'{"kind": 1}'])
def test_a_damaged_record_is_played_again_each_time_it_is_asked_for(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = LocalArtifactStore(tmp_path)
    store.create("runs/r/a/blocks/000000.json", content)
    for attempt in range(2):
        journal = Journal(store, "runs/r/a")
        assert journal.block(0, lambda: block_of("again")) == block_of("again")
        assert len(caplog.records) == attempt + 1
    assert journal.block(1, lambda: block_of("b")) == block_of("b")
    assert Journal(store, "runs/r/a").block(1, must_not_play) == block_of("b")


def test_a_damaged_payload_is_played_again(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    Journal(store, "runs/r/a").block(0, lambda: block_of("a"))
    (payload,) = store.list("payloads/")
    (tmp_path / payload).write_bytes(b"flipped")
    assert Journal(store, "runs/r/a").block(0, lambda: block_of("a")) == block_of("a")


def test_a_store_that_is_away_is_no_damage(tmp_path: Path) -> None:
    class Away(LocalArtifactStore):
        def read(self, key: str) -> bytes | None:
            raise StoreUnavailable("503")

    with pytest.raises(StoreUnavailable):
        Journal(Away(tmp_path), "runs/r/a").block(0, must_not_play)
