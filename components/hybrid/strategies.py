"""Fixed shares of control for the language model, and which of them to follow, by performance.

A strategy meets its target: control comes in segments, a block of segments holds exactly the target's number of the language
model's, and their order is shuffled by the seed (permuted blocks). So the share cannot drift, as it would by coin, and no
rhythm of the game can meet a rhythm of control. Where the share is to be an outcome, use `arbitration.py`.
"""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any, Self

from components.hybrid.segment_bandit import (
    BanditRule,
    BanditState,
    close_segment,
    credit,
    next_decision,
    start_segment,
)
from components.identity import seed_for

SEGMENT_DECISIONS = 5
"""Decisions that one actor has in a row: less would let each undo what the other began."""
BLOCK_SEGMENTS = 10
"""Segments of a block, in which the target share is met exactly."""


class Strategy(StrEnum):
    """How much the language model decides."""

    LLM_HEAVY = "llm_heavy"
    BALANCED = "balanced"
    RULE_HEAVY = "rule_heavy"


TARGET_LLM_SHARES = {Strategy.LLM_HEAVY: 0.8, Strategy.BALANCED: 0.5, Strategy.RULE_HEAVY: 0.2}


def llm_decides(strategy: Strategy, decision: int, seed: int) -> bool:
    """Whether the language model has this decision, counted from 0 since the strategy began.

    A function of its arguments alone: there is nothing to save. Over n decisions the share differs from the target by less
    than `SEGMENT_DECISIONS * BLOCK_SEGMENTS / n`.

    **Example** LLM_HEAVY: 40 of the decisions 0 to 49, in eight segments of five; so in every block of 50.
    """
    block, place = divmod(decision // SEGMENT_DECISIONS, BLOCK_SEGMENTS)
    order = list(range(BLOCK_SEGMENTS))
    Random(seed_for(seed, "strategy", strategy, block)).shuffle(order)
    return order[place] < round(TARGET_LLM_SHARES[strategy] * BLOCK_SEGMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What may overrule a measured choice: a language model that fails or has no budget left, a player who is stuck, and a
    strategy that is known to be the best here."""

    llm_error_rate: float = 0.0
    has_llm_budget: bool = True
    is_stuck: bool = False
    known: Strategy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRule:
    """When a strategy changes: every `hold` decisions at most, by the reward per decision. See `BanditRule` for the rest."""

    hold: int = 50
    discount: float = 0.99
    exploration: float = 0.5
    margin: float = 1.0
    highest_error_rate: float = 0.5

    @property
    def bandit(self) -> BanditRule:
        """The rule of the bandit over the strategies."""
        return BanditRule(
            arms=tuple(Strategy),
            hold=self.hold,
            discount=self.discount,
            exploration=self.exploration,
            margin=self.margin,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyState:
    """The strategy in force, since how many decisions, how often it changed, and what the bandit knows."""

    bandit: BanditState
    strategy: Strategy = Strategy.BALANCED
    is_overruled: bool = False
    num_decisions: int = 0
    num_switches: int = 0

    def to_json(self) -> dict[str, Any]:
        """The state as values of JSON, from which `from_json` makes an equal one."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The state from what `to_json` returned."""
        bandit = BanditState.from_json(value["bandit"])
        return cls(**value | {"bandit": bandit, "strategy": Strategy(value["strategy"])})


def next_strategy(
    state: StrategyState, rule: StrategyRule, situation: Situation, *, explore: bool = True
) -> StrategyState:
    """The state after its `strategy` was chosen for the next decision.

    First that match: a failing or unpaid language model gives RULE_HEAVY, a stuck player LLM_HEAVY, then what is known to be
    best; else the bandit decides.
    Overruled decisions are not measured.

    **Example** an error rate of .6 gives RULE_HEAVY at once; when it has fallen to .4, the segment of before goes on.
    """
    bandit, overruling = state.bandit, _overruling_strategy(rule, situation)
    if overruling is None:
        bandit = next_decision(bandit, rule.bandit, "", explore=explore)
    strategy = overruling or Strategy(bandit.arm)
    changed = state.num_decisions > 0 and strategy is not state.strategy
    return StrategyState(
        bandit=bandit,
        strategy=strategy,
        is_overruled=overruling is not None,
        num_decisions=1 if changed else state.num_decisions + 1,
        num_switches=state.num_switches + changed,
    )


def start_strategy(state: StrategyState, rule: StrategyRule, strategy: Strategy) -> StrategyState:
    """The state in which this strategy is followed for one segment of decisions; then what is measured decides.

    **Example** a `hold` of 50: the next 50 decisions.
    """
    bandit = close_segment(state.bandit, rule.bandit)
    bandit = start_segment(bandit, "", strategy.value, rule.hold + 1)  # its first decision is still to come
    changed = state.num_decisions > 0 and strategy is not state.strategy
    return replace(state, bandit=bandit, strategy=strategy, num_switches=state.num_switches + changed)


def credit_strategy(state: StrategyState, reward: float) -> StrategyState:
    """The state after the last decision has earned this reward, which counts unless it was overruled.

    **Example** 50 decisions of BALANCED that earn 10 in all are one segment with a gain of .2.
    """
    return state if state.is_overruled else replace(state, bandit=credit(state.bandit, reward))


def _overruling_strategy(rule: StrategyRule, situation: Situation) -> Strategy | None:
    if situation.llm_error_rate > rule.highest_error_rate or not situation.has_llm_budget:
        return Strategy.RULE_HEAVY
    return Strategy.LLM_HEAVY if situation.is_stuck else situation.known
