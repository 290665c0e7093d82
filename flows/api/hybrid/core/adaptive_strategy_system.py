"""Which share of the decisions the language model has: measured by reward, overruled by failures and danger."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from components.hybrid.arbitration import Actor
from components.hybrid.segment_bandit import BanditState, close_segment, start_segment
from components.hybrid.significance import wilson_bounds
from components.hybrid.strategies import (
    TARGET_LLM_SHARES,
    Situation,
    StrategyRule,
    StrategyState,
    credit_strategy,
    next_strategy,
)
from components.hybrid.strategies import Strategy as StrategyType
from flows.api.hybrid.core.decision_history_analyzer import DecisionHistoryAnalyzer
from flows.api.hybrid.core.goal_oriented_planner import GoalOrientedPlanner

_LOOKED_AT, _LEAST, _Z = 1000, 30, 1.96


class AdaptiveStrategySystem:
    """Chooses a strategy for each decision, by discounted UCB over what the strategies earn.

    With a history the first strategy is that of the actor which did better in it, at 95%; without one, or if neither did, it
    is BALANCED. With a planner, danger gives LLM_HEAVY.

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
        self.prefer_strategy(self._strategy_of_history())

    @property
    def current_strategy(self) -> StrategyType:
        """The strategy in force."""
        return self._state.strategy

    @property
    def num_switches(self) -> int:
        """How often the strategy has changed."""
        return self._state.num_switches

    def select_strategy(self, context: Mapping[str, Any]) -> StrategyType:
        """The strategy of the next decision.

        Of the context count `llm_error_rate`, `has_llm_budget`, `is_stuck` and, for the planner, `facts`; others may be there.
        """
        planner = self.goal_planner
        if planner is not None and "facts" in context:
            planner.update(context["facts"])
        situation = Situation(
            llm_error_rate=float(context.get("llm_error_rate", 0.0)),
            has_llm_budget=bool(context.get("has_llm_budget", True)),
            is_stuck=bool(context.get("is_stuck", False)) or (planner is not None and planner.is_emergency),
        )
        self._state = next_strategy(self._state, self._rule, situation)
        return self._state.strategy

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

    def state_dict(self) -> dict[str, Any]:
        """All that decides later choices, as values of JSON."""
        earned = {name: list(each) for name, each in self._earned.items()}
        goals = None if self.goal_planner is None else self.goal_planner.statuses()
        return {"strategy": self._state.to_json(), "earned": earned, "goals": goals}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` of a system with the same rule and goals returned."""
        self._state = StrategyState.from_json(state["strategy"])
        self._earned = {name: (each[0], each[1], each[2]) for name, each in state["earned"].items()}
        if self.goal_planner is not None and state["goals"] is not None:
            self.goal_planner.restore(state["goals"])

    def _strategy_of_history(self) -> StrategyType:
        if self.history_analyzer is None:
            return StrategyType.BALANCED
        bounds = {}
        decisions = self.history_analyzer.history.recent_decisions(_LOOKED_AT)
        for actor in Actor:
            own = [each.is_success for each in decisions if each.source == actor.value]
            if len(own) < _LEAST:
                return StrategyType.BALANCED
            bounds[actor] = wilson_bounds(sum(own), len(own), _Z)
        if bounds[Actor.LLM][0] > bounds[Actor.RL][1]:
            return StrategyType.LLM_HEAVY
        return StrategyType.RULE_HEAVY if bounds[Actor.RL][0] > bounds[Actor.LLM][1] else StrategyType.BALANCED
