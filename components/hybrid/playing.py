"""Whole episodes played by an agent, and what came of them."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from components.hybrid.agent import HybridAgent
from components.hybrid.game_facts import Booleans, Facts, Floats, GamesStep, Integers


class SnapshotGames(Protocol):
    """N games that begin anew by themselves and can be resumed: see `Twin` and `GamesInProcesses`."""

    @property
    def facts(self) -> Facts: ...
    def states(self) -> NDArray[Any]: ...
    def masks(self) -> Booleans: ...
    def step(self, actions_N: Integers) -> GamesStep: ...
    def snapshot(self) -> dict[str, NDArray[Any]]: ...
    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The first whole episode of each game (N,): whether it had the starter and reached the goal, its length, decisions and
    rewards.

    `by_llm_N` counts the decisions of the language model.
    """

    starter_N: Booleans
    goal_N: Booleans
    lengths_N: Integers
    by_llm_N: Integers
    rewards_N: Floats

    @property
    def llm_share(self) -> float:
        """The share of all decisions that the language model had."""
        return float(self.by_llm_N.sum() / max(1, self.lengths_N.sum()))


def play_episodes(agent: HybridAgent, games: SnapshotGames, *, explore: bool) -> Played:
    """The first episode of each game, which must be at its start. `explore` is False in evaluation.

    The games that are done earlier play on until the last one is; that is not counted.

    **Example** 200 games of at most 300 steps: 200 episodes with different starts in at most 300 rounds.
    """
    num_games = len(games.masks())
    starter_N, goal_N, over_N = (np.zeros(num_games, np.bool_) for _ in range(3))
    lengths_N, by_llm_N, rewards_N = np.zeros(num_games, np.int64), np.zeros(num_games, np.int64), np.zeros(num_games)
    while not over_N.all():
        decided = agent.decide(games.facts, games.states(), games.masks(), explore=explore)
        step = games.step(decided.actions_N)
        agent.observe(step)
        by_llm_N += decided.by_llm_N & ~over_N
        rewards_N += step.rewards_N * ~over_N
        ends_N = (step.ended_N | step.cut_N) & ~over_N
        starter_N |= ends_N & step.starter_N
        goal_N |= ends_N & step.ended_N
        lengths_N = np.where(ends_N, step.lengths_N, lengths_N)
        over_N |= ends_N
    return Played(starter_N=starter_N, goal_N=goal_N, lengths_N=lengths_N, by_llm_N=by_llm_N, rewards_N=rewards_N)
