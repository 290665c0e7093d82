"""Promotion: evidence that pays for no noise, a share of the error for each challenger, and who is on trial."""

import json
from fractions import Fraction
from math import comb, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from components.evaluation.comparison import PairedComparison
from components.evaluation.promotion import (
    Contestant,
    Entrant,
    PromotionConfig,
    PromotionState,
    Trial,
    after_night,
    e_value,
    select_challengers,
)

RULE = PromotionConfig()


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


def test_one_night_of_strong_evidence_promotes_and_ends_the_other_trials() -> None:
    state, _ = after_night(RULE, PromotionState(champion="a"), [night(10, 9, other="c")], draw="0")
    state, decisions = after_night(RULE, state, [night(40, 8), night(60, 0, other="d")], draw="1")
    assert [(each.challenger, each.outcome) for each in decisions] == [("b", "promoted")]
    assert (state.champion, state.trials, [each.run for each in state.entrants]) == ("b", (), ["c", "b"])


def test_a_draw_counts_once_and_few_problems_do_not_suffice() -> None:
    state, [first] = after_night(RULE, PromotionState(champion="a"), [night(10, 4)], draw="0")
    state, [again] = after_night(RULE, state, [night(10, 4)], draw="0")
    assert (first.outcome, again.outcome, again.evidence) == ("open", "repeated", first.evidence)
    few, [decision] = after_night(RULE, PromotionState(champion="a"), [night(60, 0, num_problems=60)], draw="0")
    assert (decision.outcome, few.champion) == ("open", "a")


def test_a_run_enters_once_and_each_of_its_weights_has_a_trial_of_its_own() -> None:
    state = PromotionState(champion="a@1")
    state, [first, other] = after_night(
        RULE,
        state,
        [night(10, 9, base="a@1", other="r@1"), night(1, 1, base="a@1", other="s@1")],
        draw="0",
        weights={"r@1": "w1", "s@1": "v1"},
    )
    assert (first.needed_evidence, other.needed_evidence) == (RULE.needed_evidence(1, 1), RULE.needed_evidence(2, 1))
    state, [same] = after_night(RULE, state, [night(5, 4, base="a@1", other="r@2")], draw="1", weights={"r@2": "w1"})
    assert (same.evidence, same.needed_evidence) == (e_value(15, 13), first.needed_evidence), "its name alone is new"
    state, [new] = after_night(RULE, state, [night(9, 1, base="a@1", other="r@2")], draw="2", weights={"r@2": "w2"})
    assert (new.evidence, new.needed_evidence) == (e_value(9, 1), RULE.needed_evidence(1, 2))
    assert [(each.run, each.num_trials) for each in state.entrants] == [("r", 2), ("s", 1)]
    assert [each.challenger for each in state.trials] == ["s@1", "r@2"]


def test_the_shares_of_all_challengers_add_up_to_the_stated_rate() -> None:
    shares = [1 / RULE.needed_evidence(k, j) for k in range(1, 300) for j in range(1, 300)]
    assert 0.99 * RULE.false_promotion_rate < sum(shares) <= RULE.false_promotion_rate


def test_who_plays_is_on_trial_while_it_leads_and_its_weights_stay() -> None:
    trials = (
        Trial(challenger="leads@1", weights="l1", num_won=9, num_lost=8, draws=("0",)),
        Trial(challenger="level@1", weights="e1", num_won=8, num_lost=8, draws=("0",)),
        Trial(challenger="gone@1", weights="g1", num_won=9, num_lost=1, draws=("0",)),
        Trial(challenger="idle@1", weights="i1", num_won=1, num_lost=8, draws=("0",)),
        Trial(challenger="idle-gone@1", weights="x1", num_won=9, num_lost=8, draws=("0",)),
    )
    entrants = (Entrant(run="spent", num_trials=1, given_up="s1"),)
    state = PromotionState(champion="c@1", champion_weights="c1", trials=trials, entrants=entrants)
    newest = [
        *(Contestant(name=f"{run}@2", weights=f"{run}2") for run in ("leads", "level", "gone", "new")),
        Contestant(name="spent@1", weights="s1"),
        Contestant(name="c@2", weights="c1"),
        Contestant(name="c@1", weights="restarted"),
    ]
    played = select_challengers(state, newest, lambda each: each.weights not in ("g1", "x1"))
    assert [each.name for each in played] == ["leads@1", "level@2", "gone@2", "new@2", "c@1", "idle@1"]


def test_weights_that_were_given_up_play_again_only_against_another_champion() -> None:
    rule = PromotionConfig(max_nights=1)
    state = PromotionState(champion="a@1", champion_weights="a1")
    beaten, strong = night(10, 10, base="a@1", other="b@1"), night(60, 0, base="a@1", other="c@1")
    weights = {"b@1": "b1", "c@1": "c1"}
    newest = [Contestant(name=name, weights=digest) for name, digest in weights.items()]
    state, [decision] = after_night(rule, state, [beaten], draw="0", weights=weights)
    assert (decision.outcome, state.trials) == ("given_up", ())
    assert [each.name for each in select_challengers(state, newest, lambda _: True)] == ["c@1"]
    state, [decision] = after_night(rule, state, [strong], draw="1", weights=weights)
    assert (decision.outcome, state.champion, state.champion_weights) == ("promoted", "c@1", "c1")
    assert [each.name for each in select_challengers(state, newest, lambda _: True)] == ["b@1"]


def test_a_new_period_begins_with_the_first_run() -> None:
    rule, state = PromotionConfig(period_nights=2), PromotionState(champion="a")
    for index, number in enumerate([1, 2, 1]):
        state, [decision] = after_night(rule, state, [night(10, 10, other=f"r{index}@1")], draw=str(index))
        assert decision.needed_evidence == rule.needed_evidence(number, 1)
    assert (state.night, [each.run for each in state.entrants]) == (1, ["r2"])


def test_a_comparison_with_another_than_the_champion_is_refused() -> None:
    with pytest.raises(ValueError, match="b played x, and the champion is a"):
        after_night(RULE, PromotionState(champion="a"), [night(1, 0, base="x")], draw="0")


def test_the_state_survives_json() -> None:
    adapter = TypeAdapter(PromotionState)
    state, _ = after_night(RULE, PromotionState(champion="a"), [night(10, 9), night(3, 4, other="c")], draw="0")
    assert len(state.trials) == 2
    assert adapter.validate_python(json.loads(json.dumps(adapter.dump_python(state, mode="json")))) == state
