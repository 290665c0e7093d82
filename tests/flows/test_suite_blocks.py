"""Blocks of a suite are played here in order, with the suite's progress, or as tasks, apart where shards are."""

from types import SimpleNamespace
from typing import Any

import pytest

from components.config import ResourceConfig
from components.reporting import progress
from flows import shards as suite_blocks

CALLS: list[Any] = [
    ("session", "greedy", SimpleNamespace(problems=range(size)), f"players {size}") for size in (4, 3, 1)
]


class Block:
    """The stage, whose calls are noted; it tells its progress halfway."""

    def __init__(self) -> None:
        self.stage, self.made = SimpleNamespace(name="play_suite"), list[Any]()

    def __call__(self, *call: Any) -> str:
        self.made.append(call)
        return f"task of {call[3]}"

    def in_lineage(self, *call: Any) -> str:
        self.made.append(call)
        progress.report("play_suite", 0, 2, len(call[2].problems))
        progress.report("another", 0, 1, 9)
        return f"play of {call[3]}"


@pytest.fixture
def block(monkeypatch: pytest.MonkeyPatch) -> Block:
    made = Block()
    monkeypatch.setattr(suite_blocks, "play_suite", made)
    return made


def test_blocks_that_are_played_here_tell_the_progress_of_the_suite(block: Block) -> None:
    told: list[tuple[float, int]] = []
    session: Any = None
    plays: list[Any] = list(
        suite_blocks.play_here(session, CALLS, title="a@1", progress=lambda *done: told.append(done))
    )
    assert plays == ["play of players 4", "play of players 3", "play of players 1"]
    assert block.made == CALLS
    assert told == [(2, 8), (4, 8), (6, 8), (7, 8), (8, 8)], "a block of one problem has no middle"


def test_one_block_at_a_time_is_a_task_of_the_flow_itself(block: Block) -> None:
    session: Any = SimpleNamespace(config=SimpleNamespace(resources=ResourceConfig()))
    plays: list[Any] = list(suite_blocks.play_in_flow(session, CALLS, title="a@1", progress=lambda *_: None))
    assert plays == ["task of players 4", "task of players 3", "task of players 1"]
    assert [suite_blocks.are_apart(ResourceConfig(runner=each)) for each in ("thread", "ray")] == [False, True]
    assert suite_blocks.are_apart(ResourceConfig(max_shards_at_once=2))
