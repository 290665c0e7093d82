"""The bandit against a plain restatement of its formula; cut anywhere and continued, it chooses the same."""

import itertools
import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.hybrid.segment_bandit import (
    BanditRule,
    BanditState,
    Tally,
    close_segment,
    credit,
    error_of_difference,
    favourites,
    next_decision,
    upper_bounds,
)

RULE = BanditRule(arms=("a", "b", "c"), hold=3, discount=0.9, margin=0.0)


def play(state: BanditState, rule: BanditRule, gains: dict[str, float], decisions: int, seed: int = 0) -> BanditState:
    rng = random.Random(seed)
    for _ in range(decisions):
        state = next_decision(state, rule, "only")
        state = credit(state, rng.gauss(gains[state.arm], 0.3))
    return state


def test_the_examples_of_the_docstrings() -> None:
    ended = BanditState(
        seed=0, context="x", arm="a", progress=3.0, num_credited=6,
        tallies=(Tally(context="x", arm="a", segments=1, gains=0.2), Tally(context="x", arm="b", segments=1, gains=0.4)),
    )  # fmt: skip
    found = close_segment(ended, BanditRule(arms=("a", "b"), discount=0.5))
    assert [(tally.segments, tally.gains) for tally in found.tallies] == [(1.5, pytest.approx(0.6)), (0.5, 0.2)]
    means = [Tally(context="", arm="a", segments=4, gains=1.6), Tally(context="", arm="b", segments=1, gains=0.1)]
    assert upper_bounds(means, 0.5) == pytest.approx([0.534, 0.368], abs=1e-3)
    many, one = (
        Tally(context="", arm="a", segments=8, squares=9),
        Tally(context="", arm="b", segments=1, gains=2, squares=4),
    )
    assert error_of_difference(many, one) == pytest.approx(1.06, abs=0.01)
    assert error_of_difference(many, Tally(context="", arm="b")) == 0
    town = (Tally(context="town", arm="rl", segments=9, gains=18), Tally(context="town", arm="llm", segments=1))
    cave = Tally(context="cave", arm="llm", segments=9, gains=900)
    rule = BanditRule(arms=("llm", "rl", "other"))
    assert favourites(BanditState(seed=0, tallies=(*town, cave)), rule) == ["rl"]
    assert favourites(BanditState(seed=0), rule) == ["llm", "rl", "other"]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("xy"), st.floats(-1, 1)), min_size=1, max_size=80))
def test_each_segment_goes_to_the_arm_that_the_formula_names(steps: list[tuple[str, float]]) -> None:
    state, gains = BanditState(seed=1), {}
    segment: tuple[str, str, list[float]] | None = None
    for context, progress in steps:
        before = state
        state = credit(next_decision(state, RULE, context), progress)
        if state.num_segments != before.num_segments:
            assert segment is None or len(segment[2]) == RULE.hold or segment[0] != context
            if segment is not None:
                gains.setdefault(segment[0], []).append((segment[1], sum(segment[2]) / len(segment[2])))
            assert state.arm in _apply_formula(gains.get(context, []))
            segment = (context, state.arm, [])
        assert segment is not None
        segment[2].append(progress)


def _apply_formula(history: list[tuple[str, float]]) -> set[str]:
    weights = [RULE.discount**age for age in reversed(range(len(history)))]
    n = {arm: sum(w for w, (a, _) in zip(weights, history, strict=True) if a == arm) for arm in RULE.arms}
    if untried := {arm for arm in RULE.arms if n[arm] < 0.5}:
        return untried
    means = {arm: sum(w * g for w, (a, g) in zip(weights, history, strict=True) if a == arm) / n[arm] for arm in n}
    spread = math.sqrt(sum(w * g * g for w, (_, g) in zip(weights, history, strict=True)) / sum(weights))
    scale = max(1e-6, spread, *(abs(mean) for mean in means.values()))
    index = {arm: means[arm] + 0.5 * scale * math.sqrt(math.log(1 + sum(weights)) / n[arm]) for arm in n}
    return {arm for arm in n if index[arm] >= max(index.values()) - 1e-9}


@given(st.integers(0, 60), st.integers(0, 2**62))
def test_a_state_that_went_through_json_goes_on_alike(cut: int, seed: int) -> None:
    gains = {"a": 0.1, "b": 0.5, "c": 0.3}
    state = play(BanditState(seed=seed), RULE, gains, cut)
    again = BanditState.from_json(json.loads(json.dumps(state.to_json())))
    assert again == state
    assert play(again, RULE, gains, 40, seed=1) == play(state, RULE, gains, 40, seed=1)


def share(rule: BanditRule, state: BanditState, gains: dict[str, float], arm: str) -> tuple[float, BanditState]:
    mine, rng = 0, random.Random(3)
    for _ in range(3000):
        state = next_decision(state, rule, "only")
        state = credit(state, rng.gauss(gains[state.arm], 0.3))
        mine += state.arm == arm
    return mine / 3000, state


def test_the_best_arm_is_played_and_found_again_when_another_becomes_better() -> None:
    rule = BanditRule(arms=("a", "b"), discount=0.97)
    early, state = share(rule, BanditState(seed=0), {"a": 0.5, "b": 0.1}, "a")
    late, _ = share(rule, state, {"a": 0.1, "b": 0.5}, "b")
    assert early > 0.85
    assert late > 0.7


def test_hysteresis_makes_changes_rare_between_equal_arms() -> None:
    def changes(margin: float) -> int:
        rule, state, arms = BanditRule(arms=("a", "b"), hold=1, margin=margin), BanditState(seed=0), []
        rng = random.Random(0)
        for _ in range(600):
            state = next_decision(state, rule, "")
            state = credit(state, rng.gauss(0.2, 0.3))
            arms.append(state.arm)
        return sum(one != other for one, other in itertools.pairwise(arms))

    assert changes(2.0) < changes(0.0) / 2
