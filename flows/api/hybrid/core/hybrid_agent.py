"""The documented agent over `components/hybrid/agent.py`: one game, decided and learned from step by step."""

import copy
import json
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from components.hybrid.adviser import Question
from components.hybrid.agent import AgentRule, Decided, description_hash
from components.hybrid.agent import HybridAgent as Player
from components.hybrid.arbitration import Actor, ArbitrationRule, Mode, is_stuck
from components.hybrid.control import ControlRule
from components.hybrid.decision_log import CreditRule, DecisionLog, DecisionSink
from components.hybrid.game_boy.emulator import SCREEN_SHAPE
from components.hybrid.game_facts import LARGEST, NUM_ACTIONS, Action, Booleans, GamesStep, state_variables
from components.hybrid.game_text import describe_state, phase_name
from components.hybrid.screens import grey_screens
from components.identity import seed_for
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem
from flows.api.hybrid.core.asked_manager import AskedManager, Manager
from flows.api.hybrid.core.curriculum import Curriculum
from flows.api.hybrid.core.exceptions import DecisionValidationError
from flows.api.hybrid.core.lessons import PlayedSteps, game_step

if TYPE_CHECKING:
    from components.hybrid.masked_ppo import MaskedPPO, PPORule

_RECENT_STATES, _RECENT_REWARDS = 8, 100


class AgentMode(StrEnum):
    """Who decides: the language model, the policy, or both by the strategy in force. A teacher has the flow `train-hybrid`."""

    LLM_ONLY = "llm_only"
    RL_ONLY = "rl_only"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A decision that has no outcome yet."""

    question: Question
    state_S: NDArray[Any]
    mask_A: Booleans
    decided: Decided

    @property
    def action(self) -> int:
        return int(self.decided.actions_N[0])

    @property
    def by_llm(self) -> bool:
        return bool(self.decided.by_llm_N[0])


class HybridAgent:
    """Decides by language model or policy, and teaches the policy by masked PPO with every `learner.steps` steps.

    Nothing draws from generators of the process: equal seeds, managers and games give equal play. In RL_ONLY the manager is
    never asked, in LLM_ONLY there is no policy. With `learner=PPORule(network="cnn")` the policy sees the screens of
    observations.

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
        learner: "PPORule | None" = None,
    ) -> None:
        """Raises ConfigurationError for another number of actions, a wrong curriculum, or a mode without its manager."""
        if action_space_size != NUM_ACTIONS:
            raise ConfigurationError(
                f"action_space_size {action_space_size}: a Game Boy has {NUM_ACTIONS} actions; use that"
            )
        self.mode, self.seed = AgentMode(mode), seed
        if llm_manager is None and self.mode is not AgentMode.RL_ONLY:
            raise ConfigurationError(f"llm_manager None: mode {self.mode.value} asks one; give it, or use rl_only")
        self.llm_manager, self.adaptive_strategy = llm_manager, adaptive_strategy
        self.curriculum = Curriculum(curriculum_config)
        if self.curriculum.has_preference:
            adaptive_strategy.prefer_strategy(self.curriculum.state.strategy)
        has_policy = self.mode is not AgentMode.LLM_ONLY
        self._learner = _new_learner(learner, seed_for(seed, "weights")) if has_policy else None
        self._asked = None if llm_manager is None else AskedManager(llm_manager)
        self._player, self._played, self._is_frozen = self._new_player(), PlayedSteps(), False
        self._log = DecisionLog(None, 1, rule=CreditRule())
        self._made: _Made | None = None
        self._recent_states: list[int] = []
        self._rewards: deque[float] = deque(maxlen=_RECENT_REWARDS)
        self.num_decisions = self.num_llm_decisions = self.num_updates = 0

    def get_action(self, observation: Mapping[str, Any], info: Mapping[str, Any]) -> int:
        """The next action, 0 to 8, which `info["action_mask"]` allows. Raises DecisionValidationError for another info."""
        facts, mask_A = _facts(info), _mask(info)
        facts_N = {name: np.array([value], np.int64) for name, value in facts.items()}
        state_S = self._seen(observation, facts_N)
        question = Question(facts=facts, legal=tuple(map(Action, np.flatnonzero(mask_A).tolist())))
        if self.mode is AgentMode.ADAPTIVE and not self._is_frozen:
            strategy = self.adaptive_strategy.select_strategy(self._context(question))
            self._player.follow(strategy, least_confidence=self.curriculum.least_confidence)
        planner = self.adaptive_strategy.goal_planner
        if self._asked is not None and planner is not None:
            goal = planner.update(facts)
            self._asked.plan = "" if goal is None else f"Plan: {goal.name}. "
        decided = self._player.decide(facts_N, state_S[None], mask_A[None], explore=not self._is_frozen)
        self._made = _Made(question=question, state_S=state_S, mask_A=mask_A, decided=decided)
        return self._made.action

    def update(
        self,
        observation: Mapping[str, Any],
        action: int,
        reward: float,
        next_observation: Mapping[str, Any],
        done: bool,
        *,
        truncated: bool = False,
        next_info: Mapping[str, Any] | None = None,
    ) -> None:
        """What the last decision has brought: credit, the record, and a lesson for the policy when there are steps for one.

        `truncated` says that `done` is a limit, behind which there was more to come. Where observations are screens,
        `next_info` tells the policy's next state. Another action than the decided one is nobody's. Raises
        DecisionValidationError without a decision before.
        """
        made, self._made = self._made, None
        if made is None:
            raise DecisionValidationError("update: there is no decision that it belongs to; call get_action first")
        next_facts = None if next_info is None else _facts(next_info)
        final_S = self._seen(
            next_observation, None if next_facts is None else {k: np.array([v]) for k, v in next_facts.items()}
        )
        step = game_step(reward, final_S, ended=done and not truncated, cut=done and truncated)
        self._player.observe(step)
        if self._asked is not None:
            self._asked.remember(describe_state(made.question.facts), int(action), reward)
        self.num_decisions += 1
        self.num_llm_decisions += made.by_llm
        if not self._is_frozen:
            self._learn(made, int(action), step)
        if done:
            self._end_episode()

    def record_in(self, history: DecisionSink) -> None:
        """Store the decisions of episodes that end, from now on, in a history that numbers the episodes itself."""
        self._log = DecisionLog(history, 1, rule=CreditRule())

    def end_of_training_episode(self, reward: float) -> str | None:
        """Count an episode in the curriculum, which may prefer another strategy then; what happened."""
        event = self.curriculum.end_episode(reward)
        if event is not None:
            self.adaptive_strategy.prefer_strategy(self.curriculum.state.strategy)
        return event

    def frozen_copy(self, seed: int) -> Self:
        """This agent as it is now, for evaluation: it learns, records and measures nothing, and its chance is the seed's."""
        other = copy.copy(self)
        other._is_frozen, other._made, other._recent_states = True, None, []
        other.num_decisions = other.num_llm_decisions = 0
        other._log = DecisionLog(None, 1, rule=CreditRule())
        other.adaptive_strategy = copy.deepcopy(self.adaptive_strategy, {id(self._history): self._history})
        if self._learner is not None:
            other._learner = _new_learner(self._learner.rule, seed)
            other._learner.load_arrays(self._learner.to_arrays())
            other._learner.reseed(seed)
        other._asked = None if self.llm_manager is None else AskedManager(self.llm_manager)
        other._player = other._new_player()
        return other

    def reseed(self, seed: int) -> None:
        """Let the policy draw from here on by this seed."""
        if self._learner is not None:
            self._learner.reseed(seed)

    def get_stats(self) -> dict[str, Any]:
        """Decisions and who made them, questions, rejected answers, lessons, and the strategies."""
        return {
            "mode": self.mode.value,
            "decisions": self.num_decisions,
            "llm_decisions": self.num_llm_decisions,
            "llm_usage_rate": self.num_llm_decisions / max(1, self.num_decisions),
            "questions": self._player.num_questions,
            "rejected_answers": 0 if self._asked is None else self._asked.num_rejected,
            "llm_error_rate": 0.0 if self._asked is None else self._asked.error_rate,
            "policy_updates": self.num_updates,
            "strategy": self.adaptive_strategy.get_strategy_stats(),
        }

    @property
    def llm_seconds(self) -> float:
        """Seconds in which the language model was waited for."""
        return 0.0 if self._asked is None else self._asked.seconds

    @property
    def last_decision(self) -> dict[str, Any]:
        """Who made the decision that has no outcome yet, how sure. Raises DecisionValidationError without one."""
        if self._made is None:
            raise DecisionValidationError("last_decision: there is none without an outcome; call get_action first")
        confidence = float(self._made.decided.confidences_N[0])
        return {"action": self._made.action, "source": self._source(self._made), "confidence": confidence}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that decides how the agent goes on between two episodes: the policy, the steps of its next lesson, the rest."""
        weights = {} if self._learner is None else self._learner.to_arrays()
        steps = (
            {f"steps.{name}": values for name, values in self._played.to_arrays().items()} if len(self._played) else {}
        )
        asked = self._asked
        state = {
            "mode": self.mode.value,
            "player": self._player.state_dict(),
            "strategy": self.adaptive_strategy.state_dict(),
            "curriculum": self.curriculum.state.to_json(),
            "rejections": [] if asked is None else list(asked.rejections),
            "rewards": list(self._rewards),
            "counts": [self.num_decisions, self.num_llm_decisions, self.num_updates],
        }
        return weights | steps | {"agent": np.frombuffer(json.dumps(state).encode(), np.uint8)}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `to_arrays` of an agent of the same kind returned. Raises ValueError or KeyError for another."""
        state = json.loads(arrays["agent"].tobytes())
        if state["mode"] != self.mode.value:
            raise ValueError(f"an agent of mode {state['mode']}, this one has {self.mode.value}")
        if self._learner is not None:
            self._learner.load_arrays(arrays)
        steps = {name.removeprefix("steps."): values for name, values in arrays.items() if name.startswith("steps.")}
        self._played = PlayedSteps()
        if steps:
            self._played.load_arrays(steps)
        self._player.load_state_dict(state["player"])
        self.adaptive_strategy.load_state_dict(state["strategy"])
        self.curriculum.state = type(self.curriculum.state).from_json(state["curriculum"])
        if self._asked is not None:
            self._asked.lines.clear()
            self._asked.rejections.clear()
            self._asked.rejections.extend(state["rejections"])
        self._rewards = deque(state["rewards"], maxlen=_RECENT_REWARDS)
        self.num_decisions, self.num_llm_decisions, self.num_updates = state["counts"]
        self._made, self._recent_states = None, []

    @property
    def _history(self) -> Any:
        return self.adaptive_strategy.history_analyzer

    def _seen(self, observation: Mapping[str, Any], facts_N: Mapping[str, NDArray[Any]] | None) -> NDArray[Any]:
        """What the policy sees of an observation."""
        sees_screens = self._learner is not None and self._learner.rule.sees_screens
        return _greys(observation) if sees_screens else _state(observation, facts_N)

    @staticmethod
    def _source(made: _Made) -> str:
        return Actor.LLM.value if made.by_llm else Actor.RL.value

    def _new_player(self) -> Player:
        is_adaptive = self.mode is AgentMode.ADAPTIVE
        control = ControlRule(
            arbitration=ArbitrationRule(mode=Mode(self.mode.value)),
            strategy=self.adaptive_strategy.current_strategy if is_adaptive else None,
        )
        player = Player(AgentRule(control=control), 1, seed=self.seed, policy=self._learner, adviser=self._asked)
        if is_adaptive:
            strategy = self.adaptive_strategy.current_strategy
            player.follow(strategy, least_confidence=self.curriculum.least_confidence)
        return player

    def _context(self, question: Question) -> dict[str, Any]:
        """What the strategy is chosen by."""
        self._recent_states = [*self._recent_states, description_hash(question.description)][-_RECENT_STATES:]
        rewards = list(self._rewards)
        return {
            "facts": question.facts,
            "phase": phase_name(question.facts),
            "is_stuck": is_stuck(self._recent_states),
            "llm_error_rate": 0.0 if self._asked is None else self._asked.error_rate,
            "llm_usage_rate": self.num_llm_decisions / max(1, self.num_decisions),
            "recent_reward": sum(rewards) / max(1, len(rewards)),
            "success_rate": sum(each > 0 for each in rewards) / max(1, len(rewards)),
            "curriculum_stage": self.curriculum.state.stage,
        }

    def _learn(self, made: _Made, action: int, step: GamesStep) -> None:
        reward = float(step.rewards_N[0])
        is_decided = action == made.action
        self._rewards.append(reward)
        self.adaptive_strategy.record_outcome(reward)
        if self._log.is_kept:
            self._record(made, action, reward)
        if self._learner is None:
            return
        self._played.add(made.state_S, made.mask_A, action, is_decided and not made.by_llm, step)
        if len(self._played) == self._learner.rule.steps:
            rollout = self._played.rollout(self._learner)
            if rollout.num_rows:
                self._learner.update(rollout)
                self.num_updates += 1

    def _record(self, made: _Made, action: int, reward: float) -> None:
        self._log.add(
            0,
            state_hash=description_hash(made.question.description),
            action=action,
            source=self._source(made),
            confidence=float(made.decided.confidences_N[0]),
            phase=phase_name(made.question.facts),
            strategy=self.adaptive_strategy.current_strategy.value
            if self.mode is AgentMode.ADAPTIVE
            else self.mode.value,
            reasoning=made.decided.reasons_N[0] if made.decided.reasons_N else "",
            timestamp=time.time(),
        )
        self._log.credit(0, reward)

    def _end_episode(self) -> None:
        self._recent_states = []
        if self._asked is not None:
            self._asked.lines.clear()
        if self.adaptive_strategy.goal_planner is not None:
            self.adaptive_strategy.goal_planner.reset()
        if not self._is_frozen:
            self._log.end_episodes([0])


def _new_learner(rule: "PPORule | None", seed: int) -> "MaskedPPO":
    from components.hybrid.masked_ppo import MaskedPPO, PPORule

    return MaskedPPO(rule or PPORule(), seed=seed)


def _facts(info: Mapping[str, Any]) -> dict[str, int]:
    facts = info.get("facts")
    if not isinstance(facts, Mapping) or set(facts) != set(LARGEST):
        raise DecisionValidationError(
            "info.facts: has not the facts of a game; give the info that the environment returned"
        )
    return {name: int(value) for name, value in facts.items()}


def _mask(info: Mapping[str, Any]) -> Booleans:
    mask_A = np.asarray(info.get("action_mask"), dtype=np.bool_)
    if mask_A.shape != (NUM_ACTIONS,) or not mask_A.any():
        raise DecisionValidationError(
            f"info.action_mask {info.get('action_mask')!r}: give {NUM_ACTIONS} of which one is allowed"
        )
    return mask_A


def _greys(observation: Mapping[str, Any]) -> NDArray[Any]:
    screen = np.asarray(observation.get("screen"))
    if screen.shape != SCREEN_SHAPE:
        raise DecisionValidationError(
            f"observation: network cnn sees a screen of {SCREEN_SHAPE}, and it has {screen.shape}; use observation_type "
            "multi_modal or screen"
        )
    greys_H_W: NDArray[Any] = grey_screens(screen[None])[0]
    return greys_H_W


def _state(observation: Mapping[str, Any], facts_N: Mapping[str, NDArray[Any]] | None) -> NDArray[Any]:
    """The 25 state variables: those of the observation, or of the facts where it has none."""
    if "state_variables" in observation:
        return np.asarray(observation["state_variables"], np.float32)
    if facts_N is None:
        raise DecisionValidationError(
            "next_observation: has no state_variables; give next_info, too, where observations are screens"
        )
    states_S: NDArray[Any] = state_variables(facts_N)[0]
    return states_S
