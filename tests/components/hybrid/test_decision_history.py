"""Decisions survive kills, locks and damage, and come back as they were."""

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.hybrid.decision_history import Decision, DecisionHistory, state_hash
from components.hybrid.errors import (
    DecisionConflict,
    HistoryCorrupt,
    HistoryLocked,
    HistoryOfOtherVersion,
    HistoryUnusable,
)
from components.hybrid.patterns import llm_shares


def decision(step: int, *, episode: int = 0, **fields: Any) -> Decision:
    given = {"state_hash": 7, "action": step % 9, "source": "rl", "is_success": step % 2 == 0, "outcome_reward": 0.1}
    return Decision(episode_id=episode, step_number=step, **given | fields)


def test_decisions_come_back_newest_first(tmp_path: Path) -> None:
    played = [decision(step, reasoning="go east", phase="town", is_last=step == 4, timestamp=1.5) for step in range(5)]
    with DecisionHistory(tmp_path / "history.db") as history:
        assert history.record(played) == 5
    with DecisionHistory(tmp_path / "history.db") as history:
        assert history.recent_decisions(3) == played[:1:-1]
        assert history.num_decisions() == 5


def test_numbers_of_numpy_and_lone_surrogates_are_stored_as_what_they_mean() -> None:
    given = decision(
        0, outcome_reward=np.float32(1), confidence=np.float32(0.5), action=np.int64(4), is_success=np.True_
    )
    history = DecisionHistory()
    history.record([given, decision(1, reasoning="go \ud83d east")])
    newest, oldest = history.recent_decisions()
    assert (oldest, newest.reasoning) == (decision(0, outcome_reward=1.0, confidence=0.5, action=4), "go ? east")


@pytest.mark.parametrize(
    ("field", "value"),
    [("confidence", "high"), ("outcome_reward", None), ("reasoning", None), ("action", 1.5), ("is_success", "yes")],
)
def test_what_is_no_number_or_text_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} {value!r}: give "):
        decision(0, **{field: value})


def test_what_is_recorded_again_is_stored_once_and_must_be_equal() -> None:
    history = DecisionHistory()
    assert history.record([decision(step) for step in range(5)]) == 5
    assert history.record([replace(decision(step), timestamp=9.0) for step in range(3, 7)]) == 2
    with pytest.raises(DecisionConflict, match="episode 0, step 3"):
        history.record([decision(7), decision(3, action=8)])
    assert history.num_decisions() == 7, "a refused batch leaves nothing behind"


def test_gaps_and_steps_after_the_last_are_refused() -> None:
    history = DecisionHistory()
    with pytest.raises(DecisionConflict, match="step 0 comes before step 1"):
        history.record([decision(1)])
    history.record([decision(0), decision(1, is_last=True), decision(0, episode=3)])
    with pytest.raises(DecisionConflict, match="ended with step 1"):
        history.record([decision(2)])


def test_decisions_are_counted_by_part_phase_and_actor() -> None:
    history = DecisionHistory()
    for episode, source in ((0, "llm"), (1, "rl")):
        history.record(
            [
                decision(
                    step,
                    episode=episode,
                    source=source if step < 2 else "rl",
                    state_hash=step,
                    phase="start" if step < 3 else "battle",
                    outcome_reward=float(step),
                    is_last=step == 3,
                )
                for step in range(4)
            ]
        )
    found = [
        (each.part, each.phase, each.source, each.num_decisions, each.mean_outcome)
        for each in history.counts("episode", 2)
    ]
    assert found == [
        (0, "start", "llm", 2, 0.5),
        (0, "start", "rl", 2, 0.5),
        (1, "battle", "rl", 2, 3.0),
        (1, "start", "rl", 2, 2.0),
    ]
    assert [each.num_decisions for each in history.counts("history", 8)] == [1] * 8
    assert list(llm_shares(history.counts("episode", 2), 3, "llm")) == [(4, 0.5), (4, 0.0), (0, None)]
    assert [[each.source for each in one] for one in history.last_episodes(2)] == [
        ["rl"] * 4,
        ["llm", "llm", "rl", "rl"],
    ]
    assert (history.phase_of(3), history.phase_of(9)) == ("battle", "")


@pytest.mark.parametrize("wrong", [{"confidence": 1.5}, {"outcome_reward": float("nan")}, {"state_hash": -1}])
def test_impossible_values_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        decision(0, **wrong)


def test_the_hash_of_a_state_depends_on_its_content_alone() -> None:
    assert state_hash({"x": 4, "y": 5}) == state_hash({"y": 5, "x": 4})
    assert state_hash({"x": 4, "y": 5}) != state_hash({"x": 5, "y": 4})
    assert 0 <= state_hash({}) < 1 << 63


def test_a_database_that_another_process_writes_is_a_transient_error(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with DecisionHistory(path, patience_seconds=0.01) as history:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryLocked, match="another process"):
            history.record([decision(0)])
        assert history.num_decisions() == 0, "reading goes on meanwhile"
        other.execute("ROLLBACK")
        other.close()
        assert history.record([decision(0)]) == 1


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_a_damaged_file_is_named(tmp_path: Path, share: float) -> None:
    path = tmp_path / "history.db"
    with DecisionHistory(path) as history:
        history.record([decision(step, reasoning="x" * 500) for step in range(200)])
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)] if share else b"not a database at all" * 100)
    with pytest.raises(HistoryCorrupt, match="restore the copy"), DecisionHistory(path) as history:
        history.recent_decisions()


def test_files_of_other_versions_and_programs_are_left_alone(tmp_path: Path) -> None:
    DecisionHistory(tmp_path / "newer.db").close()
    for name, statement in (("newer.db", "PRAGMA user_version = 3"), ("foreign.db", "CREATE TABLE notes(text)")):
        connection = sqlite3.connect(tmp_path / name)
        connection.execute(statement)
        connection.close()
        before = (tmp_path / name).read_bytes()
        with pytest.raises(HistoryOfOtherVersion, match=r"version 3|another program"):
            DecisionHistory(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


def test_a_step_is_stored_with_its_decisions_or_not_at_all(tmp_path: Path) -> None:
    with DecisionHistory() as history:
        assert history.record_step(0, "a", [decision(0)]) == 1
        with pytest.raises(DecisionConflict):
            history.record_step(1, "b", [decision(1), decision(3)])
        assert (history.steps(), history.num_decisions()) == (["a"], 1)


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnusable, match="its folder exists"):
        DecisionHistory(tmp_path / "nowhere" / "history.db")


KILLED = """
import os, signal, sys
from pathlib import Path
from components.hybrid.decision_history import Decision, DecisionHistory
history = DecisionHistory(Path(sys.argv[1]))
def batch(first):
    alike = dict(episode_id=0, state_hash=1, action=0, source="rl", is_success=True)
    return [Decision(step_number=step, **alike) for step in range(first, first + 50)]
if sys.argv[2] == "COMMIT":
    history.record(batch(0))
history._connection.set_trace_callback(lambda sql: sql.startswith(sys.argv[2]) and os.kill(os.getpid(), signal.SIGKILL))
history.record(batch(50))
"""


def test_a_kill_between_insert_and_commit_loses_that_batch_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), "COMMIT"], check=False)
    assert done.returncode == -9
    with DecisionHistory(path) as history:
        assert history.num_decisions() == 50
        again = [
            replace(decision(step), state_hash=1, action=0, is_success=True, outcome_reward=0.0) for step in range(100)
        ]
        assert history.record(again) == 50, "the resumed run records its steps again"


def test_a_kill_while_the_file_is_created_leaves_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    made = "import sqlite3, sys, os\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    made += "c.execute('PRAGMA journal_mode = WAL'); c.execute('BEGIN'); c.execute('CREATE TABLE decisions(x)'); os._exit(1)"
    subprocess.run([sys.executable, "-c", made, str(path)], check=False)
    with DecisionHistory(path) as history:
        assert history.record([decision(0)]) == 1


@pytest.mark.parametrize("kept", [1.0, 0.7, 0.3, 0.0])
def test_a_half_written_log_holds_whole_batches_alone(tmp_path: Path, kept: float) -> None:
    """What a power failure leaves: the file, and a part of its write-ahead log."""
    with DecisionHistory(tmp_path / "history.db") as history:
        for batch in range(8):
            history.record([decision(step, reasoning="x" * 200) for step in range(batch * 50, batch * 50 + 50)])
        log = (tmp_path / "history.db-wal").read_bytes()
        (tmp_path / "copy.db").write_bytes((tmp_path / "history.db").read_bytes())
    (tmp_path / "copy.db-wal").write_bytes(log[: int(len(log) * kept)])
    with DecisionHistory(tmp_path / "copy.db") as copy:
        found = copy.num_decisions()
        assert found % 50 == 0
        assert (found == 400) == (kept == 1.0)
        again = [decision(step, reasoning="x" * 200) for step in range(400)]
        assert copy.record(again) == 400 - found
        assert copy.recent_decisions(1) == again[-1:]
