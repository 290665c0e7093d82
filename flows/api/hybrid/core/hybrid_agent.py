"""The documented agent: the player of `components/hybrid/agent.py` with one game, decided and learned from step by step."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from components.hybrid.agent import AgentRule, Decided, description_hash
from components.hybrid.agent import HybridAgent as Player
from components.hybrid.arbitration import Actor, Mode
from components.hybrid.control import ControlRule
from components.hybrid.curriculum import list_stages
from components.hybrid.game_facts import LARGEST, NUM_ACTIONS, Action, Booleans, grey_screens
from components.hybrid.game_text import describe_state, phase_name
from components.hybrid.llm_actor import Question
from components.hybrid.recording_games import GamesCurriculum
from components.hybrid.recording_manager import Manager, RecordingManager
from components.hybrid.single_game import PlayedSteps, step_of_game
from components.hybrid.strategies import Strategy
from components.identity import seed_for
from flows.api.hybrid.configs import read_curriculum
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem
from flows.api.hybrid.core.exceptions import DecisionValidationError


class AgentMode(StrEnum):
    """Who decides: the language model, the policy, or both by the strategy in force. The flow has a teacher, too."""

    LLM_ONLY = "llm_only"
    RL_ONLY = "rl_only"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A decision that has no outcome yet, with what it was made on."""

    facts: Mapping[str, int]
    seen: NDArray[Any]
    mask_A: Booleans
    decided: Decided


class HybridAgent:
    """Decides by language model or policy, and teaches the policy by masked PPO with every 128 steps.

    Nothing draws from generators of the process: equal seeds, managers and games give equal play. In RL_ONLY the manager is
    never asked, in LLM_ONLY there is no policy. With `network="cnn"` the policy sees the screens of observations, else their
    state variables. Decisions go to the history of the strategies, and what has helped or hurt in
    a state there is told to the language model.

    **Example**

        action = agent.get_action(observation, info)
        next_observation, reward, terminated, truncated, info = env.step(action)
        agent.update(observation, action, reward, next_observation, terminated or truncated)
    """

    def __init__(
        self,
        llm_manager: Manager | None,
        adaptive_strategy: AdaptiveStrategySystem,
        action_space_size: int = NUM_ACTIONS,
        curriculum_config: Mapping[str, Any] | None = None,
        *,
        mode: AgentMode = AgentMode.ADAPTIVE,
        seed: int = 0,
        network: Literal["mlp", "cnn"] = "mlp",
    ) -> None:
        """Raises ConfigurationError for another number of actions, a wrong curriculum, or a mode without its manager."""
        if action_space_size != NUM_ACTIONS:
            raise ConfigurationError(
                f"action_space_size {action_space_size}: a Game Boy has {NUM_ACTIONS} actions; use that"
            )
        self.mode, self.seed = AgentMode(mode), seed
        is_adaptive = self.mode is AgentMode.ADAPTIVE
        _check_mode(self.mode, llm_manager, curriculum_config, network)
        self.llm_manager, self.adaptive_strategy = llm_manager, adaptive_strategy
        self.curriculum_config, rule = curriculum_config, read_curriculum(curriculum_config)
        if curriculum_config is not None:
            adaptive_strategy.prefer_strategy(Strategy(list_stages(rule)[0].strategy))
        self.learner = None
        if self.mode is not AgentMode.LLM_ONLY:
            from components.hybrid.masked_ppo import MaskedPPO, PPORule  # imports torch, which takes seconds

            self.learner = MaskedPPO(PPORule(network=network), seed=seed_for(seed, "weights"))
        self.asked = None if llm_manager is None else RecordingManager(llm_manager)
        control = ControlRule(
            mode=Mode(self.mode.value),
            strategy=adaptive_strategy.current_strategy if is_adaptive else None,
        )
        # Each question has the steps before it in its context: equal states are asked anew.
        self._player = Player(
            AgentRule(control=control, draws_anew=True),
            1,
            seed=seed,
            policy=self.learner,
            llm_actor=self.asked,
            history=adaptive_strategy.history_analyzer,
        )
        self._curriculum = GamesCurriculum(rule, self._player, {}) if is_adaptive else None
        self._played = PlayedSteps()
        self._made: _Made | None = None
        self.num_llm_decisions = self.num_updates = 0

    def get_action(self, observation: Mapping[str, Any], info: Mapping[str, Any]) -> int:
        """The next action, 0 to 8, which `info["action_mask"]` allows. Raises DecisionValidationError for another info."""
        facts, mask_A = _read_info(info)
        seen = self._see(observation)
        if self._curriculum is not None:
            strategy = self.adaptive_strategy.select_strategy(
                {
                    "facts": facts,
                    "phase": phase_name(facts),
                    "is_stuck": self._player.list_stuck()[0],
                    "llm_error_rate": 0.0 if self.asked is None else self.asked.error_rate,
                }
            )
            self._player.follow(strategy, least_confidence=self._curriculum.state.least_confidence)
        if self.asked is not None:
            self.asked.notes = self._write_notes(facts, mask_A)
        facts_N = {name: np.array([value], np.int64) for name, value in facts.items()}
        decided = self._player.decide(facts_N, seen[None], mask_A[None])
        self._made = _Made(facts=facts, seen=seen, mask_A=mask_A, decided=decided)
        return int(decided.actions_N[0])

    def update(
        self,
        observation: Mapping[str, Any],
        action: int,
        reward: float,
        next_observation: Mapping[str, Any],
        done: bool,
        *,
        truncated: bool = False,
    ) -> None:
        """What the last decision has brought: credit, the record, and a lesson for the policy when there are steps for one.

        `truncated` says that `done` is a limit, behind which there was more to come. Raises DecisionValidationError without a
        decision before, and for an observation or action that is not that of the decision.
        """
        decision, made, self._made = self.last_decision, self._made, None
        assert made is not None, "there is a last decision"
        if int(action) != decision["action"]:
            raise DecisionValidationError(f"action {action}: get_action decided on {decision['action']}; play that")
        if not np.array_equal(self._see(observation), made.seen):
            raise DecisionValidationError("observation: is not the one that get_action decided on; give that one")
        step = step_of_game(reward, self._see(next_observation), ended=done and not truncated, cut=done and truncated)
        self._player.observe(step)
        self.adaptive_strategy.record_outcome(float(reward))
        self.num_llm_decisions += decision["source"] == Actor.LLM
        if self.asked is not None:
            self.asked.remember(describe_state(made.facts), int(action), reward)
        if self._curriculum is not None:
            before = self._curriculum.state
            self._curriculum.observe(step, np.ones(1, np.bool_))
            after = self._curriculum.state
            if (before.stage, before.num_stalls) != (after.stage, after.num_stalls):
                self.adaptive_strategy.prefer_strategy(after.strategy)
        if self.learner is not None:
            self.num_updates += self._played.learn_from(made.seen, made.mask_A, made.decided, step, self.learner)
        if done and self.asked is not None:
            self.asked.lines.clear()
        if done and self.adaptive_strategy.goal_planner is not None:
            self.adaptive_strategy.goal_planner.reset()

    def load_weights(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Play and learn on from the policy of a learner's arrays. Raises ValueError, KeyError or RuntimeError for another."""
        if self.learner is not None:
            self.learner.load_arrays(state)
        self._played, self._made, self.num_updates = PlayedSteps(), None, 0

    @property
    def last_decision(self) -> dict[str, Any]:
        """Who made the decision that has no outcome yet, how sure. Raises DecisionValidationError without one."""
        if self._made is None:
            raise DecisionValidationError("there is no decision without an outcome; call get_action first")
        decided = self._made.decided
        source, confidence = Actor.LLM if decided.by_llm_N[0] else Actor.RL, float(decided.confidences_N[0])
        return {"action": int(decided.actions_N[0]), "source": source.value, "confidence": confidence}

    def _write_notes(self, facts: Mapping[str, int], mask_A: Booleans) -> str:
        """What the language model is told before its question: the goal, and what has helped or hurt in this state."""
        planner, history = self.adaptive_strategy.goal_planner, self.adaptive_strategy.history_analyzer
        goal = None if planner is None else planner.update(facts)
        plan = "" if goal is None else f"Plan: {goal.name}. "
        if history is None:
            return plan
        question = Question(facts=facts, legal=tuple(map(Action, np.flatnonzero(mask_A).tolist())))
        return plan + history.note_on(description_hash(question.description))

    def _see(self, observation: Mapping[str, Any]) -> NDArray[Any]:
        """What the policy sees of an observation. Raises DecisionValidationError where it has no such part."""
        if self.learner is None:  # nobody looks, but an update is still of what was decided on
            return np.asarray(observation.get("state_variables", observation.get("screen")), np.float32)
        sees_screens = self.learner.rule.sees_screens
        part, kind, other = ("screen", "screen", "mlp") if sees_screens else ("state_variables", "state", "cnn")
        if part not in observation:
            raise DecisionValidationError(
                f"observation: network {self.learner.rule.network} sees {part}, and it has none; use observation_type "
                f"multi_modal or {kind}, or network={other!r}"
            )
        seen = np.asarray(observation[part])
        return np.asarray(grey_screens(seen[None])[0] if sees_screens else seen.astype(np.float32))


def _check_mode(mode: AgentMode, manager: Manager | None, curriculum: Mapping[str, Any] | None, network: str) -> None:
    """Raise ConfigurationError for what the mode lacks, and for what has no effect in it."""
    if manager is None and mode is not AgentMode.RL_ONLY:
        raise ConfigurationError(f"llm_manager None: mode {mode.value} asks one; give it, or use rl_only")
    if curriculum is not None and mode is not AgentMode.ADAPTIVE:
        raise ConfigurationError(
            f"curriculum_config: has no effect under mode {mode.value}, where one decides; leave it out"
        )
    if network != "mlp" and mode is AgentMode.LLM_ONLY:
        raise ConfigurationError(f"network {network}: mode llm_only has no policy that sees; leave it out")


def _read_info(info: Mapping[str, Any]) -> tuple[dict[str, int], Booleans]:
    """The facts and the mask of actions. Raises DecisionValidationError for what no environment returned."""
    facts, mask_A = info.get("facts"), np.asarray(info.get("action_mask"), dtype=np.bool_)
    if not isinstance(facts, Mapping) or set(facts) != set(LARGEST):
        raise DecisionValidationError(
            "info.facts: has not the facts of a game; give the info that the environment returned"
        )
    if mask_A.shape != (NUM_ACTIONS,) or not mask_A.any():
        raise DecisionValidationError(
            f"info.action_mask {info.get('action_mask')!r}: give {NUM_ACTIONS} of which one is allowed"
        )
    return {name: int(value) for name, value in facts.items()}, mask_A
