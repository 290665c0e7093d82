"""Which share of the decisions the language model has: measured by reward, overruled by failures, danger and the history."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.errors import ConfigurationError
from components.hybrid.arbitration import Actor
from components.hybrid.goals import GoalOrientedPlanner
from components.hybrid.segment_bandit import BanditState, close_segment, start_segment
from components.hybrid.strategies import (
    TARGET_LLM_SHARES,
    Situation,
    StrategyRule,
    StrategyState,
    credit_strategy,
    next_strategy,
)
from components.hybrid.strategies import Strategy as StrategyType
from components.text.suggestions import suggest
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer

CONTEXT = ("facts", "has_llm_budget", "is_stuck", "llm_error_rate", "phase")
"""What `select_strategy` reads."""
_OF_ACTORS = {Actor.LLM: StrategyType.LLM_HEAVY, Actor.RL: StrategyType.RULE_HEAVY}


class AdaptiveStrategySystem:
    """Chooses a strategy for each decision, by discounted UCB over what the strategies earn.

    With a history, the actor that did better in it, at 95%, gives the first strategy, and in each phase of the game that of
    its decisions. Without one, or where neither did, the first is BALANCED. With a planner, danger gives LLM_HEAVY.

    **Example** `select_strategy({"llm_error_rate": 0.6})` is RULE_HEAVY.
    """

    def __init__(
        self,
        history_analyzer: DecisionHistoryAnalyzer | None = None,
        goal_planner: GoalOrientedPlanner | None = None,
        *,
        rule: StrategyRule | None = None,
        seed: int = 0,
    ) -> None:
        self.history_analyzer, self.goal_planner = history_analyzer, goal_planner
        self._rule = rule or StrategyRule()
        self._state = StrategyState(bandit=BanditState(seed=seed))
        self._earned: dict[str, tuple[int, float, int]] = {}
        self.prefer_strategy(self._strategy_of_history("") or StrategyType.BALANCED)

    @property
    def current_strategy(self) -> StrategyType:
        """The strategy in force."""
        return self._state.strategy

    @property
    def num_switches(self) -> int:
        """How often the strategy has changed."""
        return self._state.num_switches

    def select_strategy(self, context: Mapping[str, Any]) -> StrategyType:
        """The strategy of the next decision, by `llm_error_rate`, `has_llm_budget`, `is_stuck`, the `phase` of the game, in
        which the history may know who does better, and `facts` for the planner.

        Raises ConfigurationError for another key: what strategies earn is measured by `record_outcome`.
        """
        if unknown := sorted(set(context) - set(CONTEXT)):
            raise ConfigurationError(
                f"context.{unknown[0]}: has no effect on the strategy; {suggest(unknown[0], CONTEXT)}, or leave it out; what "
                "was earned is told to record_outcome"
            )
        planner = self.goal_planner
        if planner is not None and "facts" in context:
            planner.update(context["facts"])
        situation = Situation(
            llm_error_rate=float(context.get("llm_error_rate", 0.0)),
            has_llm_budget=bool(context.get("has_llm_budget", True)),
            is_stuck=bool(context.get("is_stuck", False)) or (planner is not None and planner.is_emergency),
        )
        before, state = self._state, next_strategy(self._state, self._rule, situation)
        known = self._strategy_of_history(context["phase"]) if "phase" in context else None
        if known is not None and not state.is_overruled:
            changed = before.num_decisions > 0 and known is not before.strategy
            state = replace(
                state,
                num_decisions=before.num_decisions + 1,
                strategy=known,
                is_overruled=True,
                num_switches=before.num_switches + changed,
            )
        self._state = state
        return state.strategy

    def record_outcome(self, reward: float) -> None:
        """The last decision has earned this."""
        self._state = credit_strategy(self._state, reward)
        decisions, total, successes = self._earned.get(self.current_strategy.value, (0, 0.0, 0))
        self._earned[self.current_strategy.value] = (decisions + 1, total + reward, successes + (reward > 0))

    def prefer_strategy(self, strategy: StrategyType) -> None:
        """Go on with this strategy for one segment of decisions; then what is measured decides."""
        bandit = close_segment(self._state.bandit, self._rule.bandit)
        bandit = start_segment(bandit, "", strategy.value, self._rule.hold + 1)  # its first decision is still to come
        changed = self._state.num_decisions > 0 and strategy is not self._state.strategy
        self._state = replace(
            self._state, bandit=bandit, strategy=strategy, num_switches=self._state.num_switches + changed
        )

    def get_strategy_stats(self) -> dict[str, Any]:
        """The strategy in force, its changes, and what each has earned; a success is a decision with reward above 0."""
        decisions = sum(each[0] for each in self._earned.values())
        return {
            "current_strategy": self.current_strategy.value,
            "target_llm_share": TARGET_LLM_SHARES[self.current_strategy],
            "is_overruled": self._state.is_overruled,
            "decisions": decisions,
            "switches": self.num_switches,
            "average_reward": sum(each[1] for each in self._earned.values()) / max(1, decisions),
            "success_rate": sum(each[2] for each in self._earned.values()) / max(1, decisions),
            "by_strategy": {
                name: {"decisions": count, "average_reward": total / count, "success_rate": successes / count}
                for name, (count, total, successes) in self._earned.items()
            },
        }

    def _strategy_of_history(self, phase: str) -> StrategyType | None:
        actor = None if self.history_analyzer is None else self.history_analyzer.better_actor(phase)
        return None if actor is None else _OF_ACTORS[actor]
