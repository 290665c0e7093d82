"""Promotion: evidence that pays for no noise, a budget of challengers, and a year of nights."""

import json
from fractions import Fraction
from math import comb, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from components.evaluation.comparison import PairedComparison
from components.evaluation.promotion import PromotionRule, PromotionState, after_night, e_value

RULE = PromotionRule()


def exact(won: int, lost: int) -> Fraction:
    """The integral, expanded term by term."""
    inner = sum(
        Fraction(comb(lost, i) * (-1) ** i, won + i + 1) * (1 - Fraction(1, 2 ** (won + i + 1)))
        for i in range(lost + 1)
    )
    return 2 ** (won + lost + 1) * inner


def night(won: int, lost: int, *, base: str = "a", other: str = "b", num_problems: int = 200) -> PairedComparison:
    return PairedComparison(
        base=base,
        other=other,
        num_problems=num_problems,
        num_samples=1,
        base_rate=0.5,
        other_rate=0.5 + (won - lost) / num_problems,
        num_won=won,
        num_lost=lost,
        difference=(won - lost) / num_problems,
        interval=(-1.0, 1.0),
        smallest_difference=1.0,
        spread=(won + lost) / num_problems,
    )


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_evidence_is_the_integral_and_a_fair_game(won: int, lost: int) -> None:
    assert e_value(won, lost) == pytest.approx(float(exact(won, lost)), rel=1e-12)
    assert e_value(won, lost) == pytest.approx((e_value(won + 1, lost) + e_value(won, lost + 1)) / 2, rel=1e-12)


@pytest.mark.parametrize("chance", [0.5, 0.45])
def test_looking_after_each_problem_exceeds_20_at_most_once_in_20(chance: float) -> None:
    """Exactly: the probability of ever reaching 20 within 1500 differing problems."""
    going_on, crossed = {0: 1.0}, 0.0
    for n in range(1, 1501):
        moved: dict[int, float] = {}
        for won, probability in going_on.items():
            moved[won + 1] = moved.get(won + 1, 0.0) + probability * chance
            moved[won] = moved.get(won, 0.0) + probability * (1 - chance)
        likely = {won: p for won, p in moved.items() if p > 1e-12}
        ended = {won for won in likely if won > n / 2 and e_value(won, n - won) >= 20}
        crossed += sum(likely[won] for won in ended)
        going_on = {won: p for won, p in likely.items() if won not in ended}
    assert 0.0 < crossed <= 0.05
    assert (crossed > 0.02) == (chance == 0.5), "far from its bound the rule would find nothing either"


def test_overwhelming_evidence_is_infinite() -> None:
    assert e_value(5000, 0) == inf


def year(draws: np.random.Generator, rule: PromotionRule, *, better: float, nights_each: int) -> list[int]:
    """The nights with a promotion in a year in which a new challenger comes every few nights; 15% of 200 problems differ."""
    state, promoted = PromotionState(champion="champion"), []
    for index in range(365):
        differing = int(draws.binomial(200, 0.15))
        won = int(draws.binomial(differing, 0.5 + better / 0.3))
        played = night(won, differing - won, base=state.champion, other=f"run@{index // nights_each}")
        state, [decision] = after_night(rule, state, [played], draw=str(index))
        if decision.outcome == "promoted":
            promoted.append(index)
    return promoted


@pytest.mark.parametrize("nights_each", [1, 20])
def test_a_year_of_equal_models_promotes_noise_no_more_often_than_stated(nights_each: int) -> None:
    """At a rate of 20%, which 150 years can tell from one that is twice as large."""
    rule, draws = PromotionRule(false_promotion_rate=0.2), np.random.default_rng(nights_each)
    years = [bool(year(draws, rule, better=0.0, nights_each=nights_each)) for _ in range(150)]
    assert sum(years) / len(years) <= 0.2


def test_without_the_budget_a_year_promotes_noise_often() -> None:
    careless = PromotionRule(false_promotion_rate=0.3, max_challengers=1, max_nights=1, min_problems=1)
    draws, promotions = np.random.default_rng(0), 0
    for index in range(365):
        won = int(draws.binomial(30, 0.5))
        _, [decision] = after_night(careless, PromotionState(champion="a"), [night(won, 30 - won)], draw=str(index))
        promotions += decision.outcome == "promoted"
    assert promotions > 5


def test_a_challenger_that_is_5_points_better_is_promoted_within_two_weeks() -> None:
    draws = np.random.default_rng(7)
    first = [(year(draws, RULE, better=0.05, nights_each=30) or [365])[0] for _ in range(100)]
    assert np.mean(np.array(first) < 14) > 0.95
    assert np.median(first) <= 6


def test_one_night_of_strong_evidence_promotes_and_ends_the_other_trials() -> None:
    state, _ = after_night(RULE, PromotionState(champion="a"), [night(10, 9, other="c")], draw="0")
    state, decisions = after_night(RULE, state, [night(40, 8), night(60, 0, other="d")], draw="1")
    assert [(each.challenger, each.outcome) for each in decisions] == [("b", "promoted")]
    assert (state.champion, state.trials, state.num_challengers) == ("b", (), 2)


def test_a_draw_counts_once_and_few_problems_do_not_suffice() -> None:
    state, [first] = after_night(RULE, PromotionState(champion="a"), [night(15, 2)], draw="0")
    state, [again] = after_night(RULE, state, [night(15, 2)], draw="0")
    assert (first.outcome, again.outcome, again.evidence) == ("open", "repeated", first.evidence)
    few, [decision] = after_night(RULE, PromotionState(champion="a"), [night(60, 0, num_problems=60)], draw="0")
    assert (decision.outcome, few.champion) == ("open", "a")


def test_the_budget_is_spent_and_comes_back_with_the_next_period() -> None:
    rule = PromotionRule(max_challengers=2, period_nights=4, max_nights=1)
    state, outcomes = PromotionState(champion="a"), []
    for index in range(5):
        state, [decision] = after_night(rule, state, [night(10, 10, other=f"r@{index}")], draw=str(index))
        outcomes.append(decision.outcome)
    assert outcomes == ["given_up", "given_up", "waiting", "waiting", "given_up"]
    assert (state.night, state.num_challengers, state.trials) == (1, 1, ())


def test_a_comparison_with_another_than_the_champion_is_refused() -> None:
    with pytest.raises(ValueError, match="b played x, and the champion is a"):
        after_night(RULE, PromotionState(champion="a"), [night(1, 0, base="x")], draw="0")


def test_a_rule_without_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="max_nights = 0"):
        PromotionRule(max_nights=0)
    with pytest.raises(ValueError, match="false_promotion_rate"):
        PromotionRule(false_promotion_rate=1.0)


def test_the_state_survives_json() -> None:
    adapter = TypeAdapter(PromotionState)
    state, _ = after_night(RULE, PromotionState(champion="a"), [night(10, 9), night(3, 4, other="c")], draw="0")
    assert len(state.trials) == 2
    assert adapter.validate_python(json.loads(json.dumps(adapter.dump_python(state, mode="json")))) == state
