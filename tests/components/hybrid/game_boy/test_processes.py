"""Games in processes play as games in one, and end with their parent, not with the thread that made them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from components.errors import ConfigurationError, TransientError
from components.hybrid.errors import GamesProcessDied
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from components.hybrid.game_boy.games import EpisodeRule
from components.hybrid.game_boy.processes import GamesInProcesses
from components.package_files import SOURCE_ROOT
from components.process_variables import read_variables
from tests.components.hybrid.game_boy.one_game import mixed_actions, opened_games
from tests.processes import alive

RULE = EpisodeRule(max_steps=20)


def opened(num_games: int = 4, num_processes: int = 2, *, sees_screens: bool = False) -> GamesInProcesses:
    return GamesInProcesses(
        homebrew_cartridge(),
        num_games,
        num_processes=num_processes,
        seed=4,
        environment=read_variables(),
        rule=RULE,
        sees_screens=sees_screens,
    )


@pytest.fixture(scope="module")
def games() -> Iterator[GamesInProcesses]:
    with opened() as games:
        yield games


def test_games_in_processes_play_as_games_in_one(games: GamesInProcesses) -> None:
    rng = np.random.default_rng(0)
    with opened_games(4, seed=4, rule=RULE) as together:
        for _ in range(45):
            actions = mixed_actions(together, rng)
            one, other = together.step(actions), games.step(actions)
            for name in ("states_N_S", "final_states_N_S", "rewards_N", "ended_N", "cut_N", "starter_N", "lengths_N"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            np.testing.assert_array_equal(one.terms["tiles"], other.terms["tiles"])
            np.testing.assert_array_equal(one.final_facts["x"], other.final_facts["x"])
            np.testing.assert_array_equal(together.masks(), games.masks())
        assert together.digests() == games.digests()
        np.testing.assert_array_equal(games.facts["exp"], together.facts["exp"])


def test_screens_that_are_seen_in_processes_are_those_of_games_in_one() -> None:
    options = {"seed": 4, "rule": RULE, "sees_screens": True}
    with opened(2, sees_screens=True) as games, opened_games(2, **options) as together:
        assert games.states().shape == (2, 72, 80)
        for action in (6, 6, 4, 0, 5, 7) * 4:
            one, other = together.step(np.full(2, action)), games.step(np.full(2, action))
            np.testing.assert_array_equal(one.final_states_N_S, other.final_states_N_S)
            np.testing.assert_array_equal(together.states(), games.states())


def test_a_snapshot_goes_on_exactly_in_the_same_processes(games: GamesInProcesses) -> None:
    def play() -> tuple[str, ...]:
        for action in (6, 6, 4, 0, 5, 7) * 5:
            games.step(np.full(4, action))
        return games.digests()

    snapshot = games.snapshot()
    after = play()
    assert games.digests() == after
    games.restore(snapshot)
    assert play() == after
    with pytest.raises(ValueError, match="snapshot of 1 processes"):
        games.restore({name: values for name, values in snapshot.items() if name.startswith("0.")})


def test_errors_of_a_child_are_raised_here_and_the_games_go_on(games: GamesInProcesses) -> None:
    with pytest.raises(ValueError, match="give one of 0 to 8"):
        games.step(np.array([0, 0, 0, 9]))
    with pytest.raises(ValueError, match="one for each of 4"):
        games.step(np.zeros(3, np.int64))
    with pytest.raises(ConfigurationError, match="renders=True"):
        games.screens()
    assert games.step(np.full(4, 8)).rewards_N.shape == (4,)
    with pytest.raises(ConfigurationError, match="3 games in 2 processes"):
        opened(3)


def test_games_live_on_when_the_thread_that_made_them_ends() -> None:
    made: list[GamesInProcesses] = []
    maker = threading.Thread(target=lambda: made.append(opened(2)))
    maker.start()
    maker.join()
    with made[0] as games:
        time.sleep(0.6)
        assert all(map(alive, games.pids))
        assert games.step(np.full(2, 8)).lengths_N.tolist() == [1, 1]
    assert not any(map(alive, games.pids)), "they end with the block"
    games.close()


def test_a_killed_process_is_named_and_others_end_with_the_games() -> None:
    with opened(2) as games:
        os.kill(games.pids[0], signal.SIGKILL)
        with pytest.raises(GamesProcessDied, match=rf"process {games.pids[0]} .* status -9") as caught:
            games.step(np.full(2, 8))
        assert isinstance(caught.value, TransientError)
        assert not any(map(alive, games.pids)), "the other one, too"
        with pytest.raises(ValueError, match="the games are closed: make new ones"):
            games.step(np.full(2, 8))


def test_an_interrupted_question_is_not_answered_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with opened(2) as games:
        with monkeypatch.context() as patched:
            patched.setattr(games, "_answer", interrupted)
            with pytest.raises(KeyboardInterrupt):
                games.step(np.full(2, 8))
        with pytest.raises(ValueError, match="the games are closed"):
            games.digests()
        assert not any(map(alive, games.pids))


PARENT = """
import os, sys, time
import numpy as np
sys.path.insert(0, sys.argv[1])
from tests.components.hybrid.game_boy.test_processes import opened
games = opened(2)
fork = os.fork() if sys.argv[2] == "forked" else 1
if fork:
    print(*games.pids, fork, flush=True)
while sys.argv[2] == "busy":
    games.step(np.full(2, 5))
time.sleep(600)
"""


@pytest.mark.parametrize("state", ["busy", "idle", "forked"])
def test_no_process_outlives_a_killed_parent(state: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(SOURCE_ROOT), state], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    *children, fork = map(int, parent.stdout.readline().split())
    time.sleep(0.3)
    assert all(map(alive, children))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    time.sleep(1.0)
    assert not any(map(alive, children))
    if state == "forked":
        os.kill(fork, signal.SIGKILL)
