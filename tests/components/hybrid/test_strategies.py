"""Strategies meet their shares, and the one that earns most is followed."""

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hybrid.segment_bandit import BanditState
from components.hybrid.strategies import (
    TARGET_LLM_SHARES,
    Situation,
    Strategy,
    StrategyRule,
    StrategyState,
    credit_strategy,
    llm_decides,
    next_strategy,
)

RULE, NORMAL = StrategyRule(), Situation()


@pytest.mark.parametrize("strategy", Strategy)
@given(seed=st.integers(0, 2**62), decisions=st.integers(1, 400))
def test_the_share_is_the_target(strategy: Strategy, seed: int, decisions: int) -> None:
    share = sum(llm_decides(strategy, decision, seed) for decision in range(decisions)) / decisions
    bound = 0.0 if decisions % 50 == 0 else 50 / decisions
    assert abs(share - TARGET_LLM_SHARES[strategy]) <= bound + 1e-9


def test_control_changes_by_segments_in_an_order_of_the_seed() -> None:
    acts = [[llm_decides(Strategy.BALANCED, decision, seed) for decision in range(500)] for seed in range(2)]
    assert acts[0] != acts[1]
    assert all(len(set(acts[0][start : start + 5])) == 1 for start in range(0, 500, 5))
    assert len({tuple(acts[0][start : start + 50]) for start in range(0, 500, 50)}) > 5, "no rhythm"


def follow(
    state: StrategyState, rewards: dict[Strategy, float], decisions: int
) -> tuple[StrategyState, list[Strategy]]:
    rng, followed = random.Random(1), []
    for _ in range(decisions):
        state = next_strategy(state, RULE, NORMAL)
        followed.append(state.strategy)
        state = credit_strategy(state, rng.gauss(rewards[state.strategy], 0.5))
    return state, followed


@pytest.mark.parametrize("best", Strategy)
def test_the_strategy_that_earns_most_is_followed(best: Strategy) -> None:
    rewards = {strategy: 1.0 if strategy is best else 0.1 for strategy in Strategy}
    state, followed = follow(StrategyState(bandit=BanditState(seed=0)), rewards, 8000)
    assert followed[4000:].count(best) > 0.8 * 4000
    assert state.num_switches == sum(one != other for one, other in itertools.pairwise(followed))


def test_failures_and_being_stuck_overrule_and_are_not_measured() -> None:
    state, _ = follow(StrategyState(bandit=BanditState(seed=0)), dict.fromkeys(Strategy, 0.2), 10)
    for situation, strategy in (
        (Situation(llm_error_rate=0.6, is_stuck=True), Strategy.RULE_HEAVY),
        (Situation(has_llm_budget=False), Strategy.RULE_HEAVY),
        (Situation(is_stuck=True), Strategy.LLM_HEAVY),
    ):
        overruled = next_strategy(state, RULE, situation)
        assert overruled.strategy is strategy
        assert credit_strategy(overruled, 100.0).bandit == state.bandit
        back = next_strategy(overruled, RULE, NORMAL)
        assert back.strategy is state.strategy


def test_a_strategy_counts_its_own_decisions() -> None:
    state = StrategyState(bandit=BanditState(seed=0))
    numbers = []
    for stuck in (False, False, True, True):
        state = next_strategy(state, RULE, Situation(is_stuck=stuck))
        numbers.append(state.num_decisions)
    assert numbers in ([1, 2, 1, 2], [1, 2, 3, 4])
    assert (numbers[-1] == 4) == (state.num_switches == 0)


def test_a_state_that_went_through_json_goes_on_alike() -> None:
    rewards = {strategy: 0.1 * number for number, strategy in enumerate(Strategy)}
    state, _ = follow(StrategyState(bandit=BanditState(seed=5)), rewards, 333)
    again = StrategyState.from_json(json.loads(json.dumps(state.to_json())))
    assert again == state
    assert follow(again, rewards, 200) == follow(state, rewards, 200)
