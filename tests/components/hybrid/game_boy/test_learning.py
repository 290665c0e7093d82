"""The learner on the real emulator: it learns what chance does not find, and is resumed bit for bit in new processes."""

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch

from components.hybrid.episodes import EpisodeRule
from components.hybrid.game_boy.games import EmulatedGames
from components.hybrid.masked_ppo import MaskedPPO, PPORule
from tests.components.hybrid.game_boy.one_game import open_games
from tests.components.hybrid.scripted_play import random_actions

pytestmark = pytest.mark.slow
MOST_STEPS = 100


def open_them(num_games: int, *, seed: int, max_steps: int = MOST_STEPS) -> AbstractContextManager[EmulatedGames]:
    return open_games(num_games, seed=seed, rule=EpisodeRule(max_steps=max_steps))


def starter_rate(games: EmulatedGames, choose: Callable[[Any, Any], Any]) -> float:
    """That of each game's next episode of 100 steps; the badge cannot be won in so few by chance."""
    found = np.zeros(games.num_games, np.bool_)
    for _ in range(MOST_STEPS):
        step = games.step(choose(games.states(), games.masks()))
        found |= step.starter_N
    return float(found.mean())


def test_it_learns_to_find_the_starter_and_chance_does_not() -> None:
    rng = np.random.default_rng(0)
    learner = MaskedPPO(PPORule(steps=64, minibatch=256), seed=0)
    with open_them(16, seed=0) as games:
        for _ in range(12):  # 12,288 steps
            learner.update(learner.collect(games))
    with open_them(32, seed=99) as games:
        by_chance = starter_rate(games, lambda _, masks: random_actions(rng, masks))
        learned = starter_rate(games, lambda states, masks: learner.choose(states, masks)[0])
    assert by_chance < 0.3
    assert learned > 0.85


def test_a_learner_and_its_games_go_on_bit_for_bit_in_other_games() -> None:
    rule = PPORule(steps=16, minibatch=32, epochs=2)

    def advance(learner: MaskedPPO, games: EmulatedGames) -> tuple[Any, ...]:
        for _ in range(2):
            learner.update(learner.collect(games))
        weights = torch.cat([value.flatten() for value in learner.state_dict()["weights"].values()])
        return games.digests(), tuple(weights.tolist())

    learner, file = MaskedPPO(rule, seed=5), io.BytesIO()
    with open_them(4, seed=5, max_steps=10) as games:
        advance(learner, games)
        snapshot = games.snapshot()
        torch.save(learner.state_dict(), file)
        straight = advance(learner, games)

    def resume(left_out: str = "") -> tuple[Any, ...]:
        other = MaskedPPO(rule, seed=6)
        file.seek(0)
        if left_out != "learner":
            other.load_state_dict(torch.load(file, weights_only=True))
        with open_them(4, seed=5, max_steps=10) as games:
            if left_out != "games":
                games.restore(snapshot)
            return advance(other, games)

    assert resume() == straight
    assert resume("learner")[1] != straight[1]
    assert resume("games")[1] != straight[1]
