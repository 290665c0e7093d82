"""How good a learner is: episodes that training has not seen, which change nothing in it."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.hybrid.agent import HybridAgent, Policy
from components.hybrid.experience import (
    GamesOpener,
    HybridSettings,
    open_twins,
    read_policy,
)
from components.hybrid.llm_actor import LlmActor
from components.hybrid.recording_games import Played, curriculum_in, play_episodes
from components.identity import seed_for

_RECENT = 8
"""States within which a greedy player is seen to go round."""


def play_held_out(
    settings: HybridSettings,
    state: Mapping[str, NDArray[Any]],
    *,
    num_episodes: int,
    seed: int,
    is_greedy: bool,
    llm_actor: LlmActor | None = None,
    open_games: GamesOpener = open_twins,
) -> Played:
    """So many episodes from the true start with starts of this seed, played at once by what a state has learned.

    What arbitration has measured, and how far a curriculum has come, is used and not changed. `is_greedy`: the player is a
    `GreedyPolicy`.

    **Example** 100 episodes of at most 600 steps: 600 decisions of 100 games at most.
    """
    goal = make_held_out_settings(settings, num_episodes)
    agent = make_trained_agent(settings, state, num_episodes, seed=seed, is_greedy=is_greedy, llm_actor=llm_actor)
    with open_games(goal, seed) as games:
        return play_episodes(agent, games, explore=False)


def make_held_out_settings(settings: HybridSettings, num_episodes: int) -> HybridSettings:
    """The settings of so many episodes from the true start that no training plays."""
    return replace(settings, num_games=num_episodes, starts=None, keeps_decisions=False, is_held_out=True)


def make_trained_agent(
    settings: HybridSettings,
    state: Mapping[str, NDArray[Any]],
    num_games: int,
    *,
    seed: int,
    is_greedy: bool,
    llm_actor: LlmActor | None = None,
) -> HybridAgent:
    """The player of `num_games` games that a state has learned to be, with what its arbitration has measured, at its
    place in a curriculum."""
    policy: Policy = read_policy(settings, state, seed=seed_for(seed, "held out"))
    agent = HybridAgent(
        settings.agent, num_games, seed=seed, policy=GreedyPolicy(policy) if is_greedy else policy, llm_actor=llm_actor
    )
    if "agent" in state:
        trained = HybridAgent(settings.agent, settings.num_games, seed=seed, policy=policy, llm_actor=llm_actor)
        trained.load_state_dict(json.loads(state["agent"].tobytes()))
        agent.control.learn_from(trained.control)
    if settings.curriculum is not None:
        reached = curriculum_in(state, settings.curriculum)
        agent.follow(reached.strategy, least_confidence=reached.least_confidence)
    return agent


class GreedyPolicy:
    """A policy whose most likely button is pressed, for games played side by side from their start.

    Where a game is in one of the last `_RECENT` states that the policy saw, as before a wall, its most likely buttons would
    go round for ever: there one is drawn.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._recent: deque[NDArray[Any]] = deque(maxlen=_RECENT)

    def choose(self, states_N_S: NDArray[Any], masks_N_A: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        drawn_N, probabilities_N_A = self._policy.choose(states_N_S, masks_N_A)
        goes_round_N = np.zeros(len(states_N_S), np.bool_)
        for before_N_S in self._recent:
            goes_round_N |= (states_N_S == before_N_S).reshape(len(states_N_S), -1).all(axis=1)
        self._recent.append(states_N_S.copy())
        return np.where(goes_round_N, drawn_N, probabilities_N_A.argmax(axis=1)), probabilities_N_A
