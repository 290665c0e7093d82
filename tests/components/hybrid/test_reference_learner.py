"""Our own learner and sb3-contrib's MaskablePPO, on the same games: both reach the bar, and chance does not."""

from typing import Any

import numpy as np
import pytest

from components.hybrid.episodes import EpisodeRule
from components.hybrid.game_facts import NUM_ACTIONS, STATE_VARIABLES
from components.hybrid.masked_ppo import MaskedPPO, PPORule
from components.hybrid.twin import Twin
from tests.components.hybrid.scripted_play import random_actions

sb3_contrib = pytest.importorskip("sb3_contrib")
gymnasium = pytest.importorskip("gymnasium")
vec_env = pytest.importorskip("stable_baselines3.common.vec_env.base_vec_env")
pytestmark = pytest.mark.slow
NUM_GAMES, STEPS, UPDATES, MOST_STEPS, BAR = 16, 64, 16, 100, 0.8
RULE = EpisodeRule(max_steps=MOST_STEPS)


class TwinVecEnv(vec_env.VecEnv):
    """A twin as the vectorised environment of Stable-Baselines3, with its masks."""

    def __init__(self, twin: Twin) -> None:
        box = gymnasium.spaces.Box(0, 1, (len(STATE_VARIABLES),), np.float32)
        self.twin = twin
        super().__init__(NUM_GAMES, box, gymnasium.spaces.Discrete(NUM_ACTIONS))

    def reset(self) -> Any:
        return self.twin.states()

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        step = self.twin.step(self.actions)
        infos = [
            {"terminal_observation": step.final_states_N_S[game], "TimeLimit.truncated": bool(step.cut_N[game])}
            for game in range(NUM_GAMES)
        ]
        return step.states_N_S, 0.1 * step.rewards_N.astype(np.float32), step.ended_N | step.cut_N, infos

    def env_method(self, name: str, *_: Any, **__: Any) -> Any:
        assert name == "action_masks"
        return list(self.twin.masks())

    def has_attr(self, name: str) -> bool:
        return name == "action_masks"

    def get_attr(self, name: str, indices: Any = None) -> Any:
        return [None] * NUM_GAMES

    def set_attr(self, *_: Any) -> None:
        raise AttributeError

    def env_is_wrapped(self, *_: Any, **__: Any) -> list[bool]:
        return [False] * NUM_GAMES

    def close(self) -> None:
        return


def starter_rate(choose: Any) -> float:
    """The share of 64 games that have the starter within 100 steps."""
    twin, found = Twin(64, seed=99, rule=RULE), np.zeros(64, np.bool_)
    for _ in range(MOST_STEPS):
        found |= twin.step(choose(twin.states(), twin.masks())).starter_N
    return float(found.mean())


def test_both_learners_reach_the_bar() -> None:
    rng = np.random.default_rng(0)
    own = MaskedPPO(PPORule(steps=STEPS, minibatch=256), seed=0)
    games = Twin(NUM_GAMES, seed=0, rule=RULE)
    for _ in range(UPDATES):
        own.update(own.collect(games))
    reference = sb3_contrib.MaskablePPO(
        "MlpPolicy", TwinVecEnv(Twin(NUM_GAMES, seed=0, rule=RULE)), n_steps=STEPS, batch_size=256, n_epochs=4,
        learning_rate=1e-3, ent_coef=0.01, seed=0, device="cpu",
    )  # fmt: skip
    reference.learn(UPDATES * STEPS * NUM_GAMES)
    rates = {
        "chance": starter_rate(lambda _, masks: random_actions(rng, masks)),
        "own": starter_rate(lambda states, masks: own.choose(states, masks)[0]),
        "reference": starter_rate(lambda states, masks: reference.predict(states, action_masks=masks)[0]),
    }
    assert rates["chance"] < 0.3, rates
    assert min(rates["own"], rates["reference"]) > BAR, rates
