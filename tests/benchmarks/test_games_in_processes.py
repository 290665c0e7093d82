"""Games in processes play as games in one."""

from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.games_in_processes import GamesInProcesses
from components.hybrid.episodes import EpisodeRule
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from components.machine.process_variables import read_variables
from tests.components.hybrid.game_boy.one_game import mix_actions, open_games

RULE = EpisodeRule(max_steps=20)


def open_homebrew(num_games: int = 4, num_processes: int = 2) -> GamesInProcesses:
    return GamesInProcesses(
        homebrew_cartridge(),
        num_games,
        num_processes=num_processes,
        seed=4,
        environment=read_variables(),
        rule=RULE,
    )


@pytest.fixture(scope="module")
def games() -> Iterator[GamesInProcesses]:
    with open_homebrew() as games:
        yield games


def test_games_in_processes_play_as_games_in_one(games: GamesInProcesses) -> None:
    rng = np.random.default_rng(0)
    with open_games(4, seed=4, rule=RULE) as together:
        for _ in range(45):
            actions = mix_actions(together, rng)
            one, other = together.step(actions), games.step(actions)
            for name in ("states_N_S", "final_states_N_S", "rewards_N", "ended_N", "cut_N", "starter_N", "lengths_N"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            np.testing.assert_array_equal(one.terms["tiles"], other.terms["tiles"])
            np.testing.assert_array_equal(one.final_facts["x"], other.final_facts["x"])
            np.testing.assert_array_equal(together.masks(), games.masks())
        assert together.digests() == games.digests()
        np.testing.assert_array_equal(games.facts["exp"], together.facts["exp"])
