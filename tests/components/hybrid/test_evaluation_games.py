"""Evaluations play starts that training never has, and a greedy player does not stand before a wall for ever."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from components.environments.registry import family, family_options
from components.hybrid.episodes import NUM_STARTS, EpisodeRule, is_held_out_seed, start_seed
from components.hybrid.evaluation_games import GreedyPolicy, play_held_out
from components.hybrid.experience import HybridSettings, new_learner_state, open_twins
from components.hybrid.twin import Twin


@pytest.mark.parametrize("num_starts", [*NUM_STARTS.values(), 1 << 64])
def test_no_start_is_played_in_training_and_held_out(num_starts: int) -> None:
    trained, held_out = (
        {start_seed(seed, "game", number, is_held_out=kind) % num_starts for seed in (0, 7) for number in range(2_000)}
        for kind in (False, True)
    )
    assert not trained & held_out
    assert len(held_out) > 10
    assert num_starts > 60 or len(trained | held_out) == 60


@pytest.mark.parametrize("is_held_out", [False, True])
def test_the_twin_begins_each_episode_at_a_start_of_its_kind(is_held_out: bool) -> None:
    twin = Twin(20, seed=3, rule=EpisodeRule(max_steps=1, is_held_out=is_held_out))
    starts = [*twin._chance_N.tolist()]
    twin.step(np.zeros(20, np.int64))
    starts += twin._chance_N.tolist()
    assert {is_held_out_seed(start) for start in starts} == {is_held_out}


def test_the_emulator_begins_each_episode_at_a_start_of_its_kind() -> None:
    pytest.importorskip("pyboy")
    from tests.components.hybrid.game_boy.one_game import CHANCE, open_games

    for is_held_out in (False, True):
        with open_games(3, rule=EpisodeRule(is_held_out=is_held_out)) as games:
            written = [int.from_bytes(emulator.read(0, CHANCE, 2), "big") - 1 for emulator in games._emulators]
        assert {is_held_out_seed(start) for start in written} == {is_held_out}


def test_training_and_evaluation_ask_for_games_of_their_kind() -> None:
    asked: list[tuple[bool, int]] = []

    def opener(settings: HybridSettings, seed: int) -> AbstractContextManager[Any]:
        asked.append((settings.is_held_out, settings.num_games))
        return open_twins(settings, seed)

    settings = HybridSettings(num_games=2, max_steps=5)
    state = new_learner_state(settings, 0, open_games=opener)
    play_held_out(settings, state, num_episodes=3, seed=1, is_greedy=True, open_games=opener)
    assert asked == [(False, 2), (True, 3)]


@pytest.mark.parametrize("game", ["twin", "homebrew"])
def test_no_test_problem_of_the_environment_begins_as_one_of_training_does(game: str) -> None:
    known, options = family("game_boy", "choice"), family_options("game_boy", {"game": game})
    num_starts = NUM_STARTS.get(game, 1 << 48)
    trained, tests = (
        {known.problem(options, split=split, index=index, seed=0).payload["seed"] % num_starts for index in range(600)}
        for split in ("train", "test")
    )
    assert not trained & tests


class Fixed:
    """Draws B; likeliest is A."""

    def choose(self, states_N_S: Any, masks_N_A: Any) -> Any:
        probabilities_N_A = np.tile([0.6, 0.4], (len(states_N_S), 1))
        return np.ones(len(states_N_S), np.int64), probabilities_N_A


def test_a_greedy_player_draws_where_it_goes_round_alone() -> None:
    greedy = GreedyPolicy(Fixed())
    states_T_N = np.array([range(100, 112), [5] * 12, [1, 2, 3] * 4], np.float32).T[:, :, None]
    pressed = [greedy.choose(states_N, None)[0] for states_N in states_T_N]
    assert np.stack(pressed, axis=1).tolist() == [[0] * 12, [0] + [1] * 11, [0] * 3 + [1] * 9]
