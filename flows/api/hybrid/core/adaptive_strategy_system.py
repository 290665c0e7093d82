"""Which share of the decisions the language model has: measured by reward, overruled by failures, danger and the history."""

from collections.abc import Mapping
from typing import Any

from components.errors import ConfigurationError
from components.hybrid.arbitration import Actor
from components.hybrid.goals import GoalOrientedPlanner as GoalOrientedPlanner
from components.hybrid.segment_bandit import BanditState
from components.hybrid.strategies import (
    TARGET_LLM_SHARES,
    Situation,
    StrategyRule,
    StrategyState,
    credit_strategy,
    next_strategy,
    start_strategy,
)
from components.hybrid.strategies import Strategy as StrategyType
from components.text.suggestions import suggest
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer

CONTEXT = ("facts", "has_llm_budget", "is_stuck", "llm_error_rate", "phase")
"""What `select_strategy` reads."""
_RULE = StrategyRule()
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
        seed: int = 0,
    ) -> None:
        self.history_analyzer, self.goal_planner = history_analyzer, goal_planner
        self._state = StrategyState(bandit=BanditState(seed=seed))
        self._earned: dict[str, tuple[int, float, int]] = {}
        self.prefer_strategy(self._find_known("") or StrategyType.BALANCED)

    @property
    def current_strategy(self) -> StrategyType:
        """The strategy in force."""
        return self._state.strategy

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
            known=self._find_known(context["phase"]) if "phase" in context else None,
        )
        self._state = next_strategy(self._state, _RULE, situation)
        return self.current_strategy

    def record_outcome(self, reward: float) -> None:
        """The last decision has earned this."""
        self._state = credit_strategy(self._state, reward)
        decisions, total, successes = self._earned.get(self.current_strategy.value, (0, 0.0, 0))
        self._earned[self.current_strategy.value] = (decisions + 1, total + reward, successes + (reward > 0))

    def prefer_strategy(self, strategy: StrategyType) -> None:
        """Go on with this strategy for one segment of decisions; then what is measured decides."""
        self._state = start_strategy(self._state, _RULE, strategy)

    def get_strategy_stats(self) -> dict[str, Any]:
        """The strategy in force, its changes, and what each has earned; a success is a decision with reward above 0."""
        decisions, total, successes = (sum(each) for each in zip((0, 0.0, 0), *self._earned.values(), strict=True))
        return {
            "current_strategy": self.current_strategy.value,
            "target_llm_share": TARGET_LLM_SHARES[self.current_strategy],
            "is_overruled": self._state.is_overruled,
            "switches": self._state.num_switches,
            **_describe_earnings(int(decisions), total, int(successes)),
            "by_strategy": {name: _describe_earnings(*each) for name, each in self._earned.items()},
        }

    def _find_known(self, phase: str) -> StrategyType | None:
        actor = None if self.history_analyzer is None else self.history_analyzer.better_actor(phase)
        return None if actor is None else _OF_ACTORS[actor]


def _describe_earnings(decisions: int, total: float, successes: int) -> dict[str, float]:
    count = max(1, decisions)
    return {"decisions": decisions, "average_reward": total / count, "success_rate": successes / count}
