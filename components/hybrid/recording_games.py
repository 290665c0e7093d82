"""The games of a training step as the learner sees them: the agent decides, episodes are counted, and a curriculum follows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from components.config.hybrid import CurriculumConfig
from components.hybrid.agent import Decided, HybridAgent
from components.hybrid.curriculum import CurriculumState, first_state, next_state
from components.hybrid.game_facts import Booleans, Facts, Floats, GamesStep, Integers
from components.hybrid.strategies import TARGET_LLM_SHARES


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


_STATE, _REWARDS = "curriculum.state", "curriculum.rewards_N"


def curriculum_in(arrays: Mapping[str, NDArray[Any]], rule: CurriculumConfig) -> CurriculumState:
    """Where a learner's arrays are in their curriculum: at its beginning where they hold none, before the first step."""
    return CurriculumState.from_json(json.loads(arrays[_STATE].tobytes())) if _STATE in arrays else first_state(rule)


class GamesCurriculum:
    """One curriculum of N games that are played at once, which `agent` follows. Equal play moves it equally.

    Each episode that ends moves it by all that it earned, those of one button in the order of the games. Episodes that began
    at a kept position earn less than the whole way does: they do not count.
    """

    def __init__(self, rule: CurriculumConfig, agent: HybridAgent, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._rule, self._agent = rule, agent
        self.state = curriculum_in(arrays, rule)
        self._rewards_N = arrays[_REWARDS].copy() if _REWARDS in arrays else np.zeros(agent.num_games)
        self._num_advances = self._num_stalls = 0
        self._lead()

    def observe(self, step: GamesStep, counts_N: Booleans) -> None:
        """What a button brought in each game; `counts_N` are those whose episode began at the true start."""
        self._rewards_N += step.rewards_N
        over_N = step.ended_N | step.cut_N
        for reward in self._rewards_N[over_N & counts_N].tolist():
            self.state, event = next_state(self.state, self._rule, reward)
            self._num_advances += event == "curriculum_advance"
            self._num_stalls += event == "curriculum_stalled"
        self._rewards_N[over_N] = 0.0
        if over_N.any():
            self._lead()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that decides how it goes on: the state, and what open episodes have earned (N,)."""
        text = np.frombuffer(json.dumps(self.state.to_json()).encode(), np.uint8)
        return {_STATE: text, _REWARDS: self._rewards_N.copy()}

    def metrics(self) -> dict[str, float]:
        """Where it is after the step, by the number of the stage from 0, and what happened in the step."""
        return {
            "curriculum/stage": float(self.state.stage),
            "curriculum/llm_confidence": self.state.llm_confidence,
            "curriculum/target_llm_share": TARGET_LLM_SHARES[self.state.strategy],
            "curriculum/num_advances": float(self._num_advances),
            "curriculum/num_stalls": float(self._num_stalls),
        }

    def _lead(self) -> None:
        self._agent.follow(self.state.strategy, least_confidence=self.state.least_confidence)


class RecordingGames:
    """Games whose episodes are counted; the agent is told of their steps, as is a curriculum."""

    def __init__(self, games: SnapshotGames, agent: HybridAgent, curriculum: GamesCurriculum | None = None) -> None:
        self._games, self._agent, self._curriculum = games, agent, curriculum
        self._ends: list[tuple[float, float, float]] = []
        self._decided: list[Decided] = []
        self.goals_from_start: list[bool] = []

    @property
    def draws_T_N(self) -> list[tuple[int | None, ...]]:
        """The draw behind each decision."""
        return [decided.draws_N for decided in self._decided]

    def states(self) -> NDArray[Any]:
        return self._games.states()

    def masks(self) -> Booleans:
        return self._games.masks()

    def choose(self, states_N_S: NDArray[Any], masks_N_A: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        decided = self._agent.decide(self._games.facts, states_N_S, masks_N_A)
        self._decided.append(decided)
        return decided.actions_N, ~decided.by_llm_N

    def step(self, actions_N: Integers) -> GamesStep:
        from_start_N = getattr(self._games, "from_start_N", np.ones(len(actions_N), np.bool_)).copy()
        step = self._games.step(actions_N)
        self._agent.observe(step)
        if self._curriculum is not None:
            self._curriculum.observe(step, from_start_N)
        over_N = step.ended_N | step.cut_N
        self.goals_from_start += step.ended_N[over_N & from_start_N].tolist()
        for game in np.flatnonzero(over_N).tolist():
            ended, starter, length = (values_N[game] for values_N in (step.ended_N, step.starter_N, step.lengths_N))
            self._ends.append((float(ended), float(starter), float(length)))
        return step

    def metrics(self) -> dict[str, float]:
        """Rates are of the episodes that ended; there are none without any."""
        llm_share = np.mean([decided.by_llm_N.mean() for decided in self._decided])
        counted = {"rollout/num_episodes": float(len(self._ends)), "rollout/llm_share": float(llm_share)}
        if self._curriculum is not None:
            num_unsure = sum(decided.num_unsure for decided in self._decided)
            num_decisions = sum(len(decided.by_llm_N) for decided in self._decided)
            counted |= self._curriculum.metrics() | {"curriculum/unsure_share": num_unsure / num_decisions}
        if not self._ends:
            return counted
        goal, starter, length = np.mean(self._ends, axis=0).tolist()
        return counted | {
            "rollout/goal_rate": goal,
            "rollout/starter_rate": starter,
            "rollout/episode_length": length,
        }
