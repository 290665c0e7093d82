"""What the sentences below the tables of arms say, against sums and tests of our own over the same rows."""

import json
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from benchmarks.arm_claims import claims, falls
from benchmarks.arm_pairs import ARMS, GREEDY, NESTED, OWN_START, PAIRS, SINGLE, TEAM, compare_arms, comparisons
from benchmarks.arm_runs import Trained
from benchmarks.intervals import adjust_by_holm
from benchmarks.power import compute_paired_p_value

RECORD = Path(__file__).parents[2] / "benchmarks" / "measured" / "arms" / "rows"
P_VALUES = st.lists(st.floats(0, 1), max_size=7)


def ran(run: str, seed: int, before: float, after: float) -> Trained:
    return Trained(
        game="plan-path", run=run, seed=seed, before={"sample": before, "greedy": before},
        after={"sample": after, "greedy": after}, num_steps=1, num_tokens=1068, num_rows=1, num_rows_with_signal=1,
        num_updates=1, first_role_share=None, seconds=1.0,
    )  # fmt: skip


@given(P_VALUES)
def test_holms_correction_is_the_closed_test_of_bonferronis(p_values: list[float]) -> None:
    everyone = range(len(p_values))
    subsets = list(chain.from_iterable(combinations(everyone, size) for size in range(1, len(p_values) + 1)))
    closed = [
        max(min(1.0, len(each) * min(p_values[other] for other in each)) for each in subsets if index in each)
        for index in everyone
    ]
    assert adjust_by_holm(p_values) == pytest.approx(closed)


@given(st.lists(st.integers(-1000, 1000).map(lambda value: value / 8), min_size=2, max_size=6))
def test_the_p_value_is_that_of_a_paired_t_test(differences: list[float]) -> None:
    if len(set(differences)) == 1:
        assert compute_paired_p_value(differences) == (1.0 if differences[0] == 0 else 0.0)
    else:
        assert compute_paired_p_value(differences) == pytest.approx(ttest_1samp(differences, 0).pvalue)
    assert compute_paired_p_value(differences[:1]) == 1.0


@pytest.mark.parametrize(
    ("mine", "theirs", "is_pair"),
    [
        ({"start": {"team": "a"}}, {"start": {"team": "a"}, "before": {"sample": 0.9, "greedy": 0.9}}, True),
        ({"start": {"team": "a"}}, {"start": {"team": "b"}}, False),
        ({}, {}, True),
        ({"start": {"team": "a"}}, {"before": {"sample": 0.1, "greedy": 0.4}}, False),
        ({"before": {"sample": 0.1, "greedy": 0.4}}, {}, False),
    ],
)
def test_only_runs_that_began_at_one_start_are_a_pair(
    mine: dict[str, Any], theirs: dict[str, Any], is_pair: bool
) -> None:
    rows = [ran("c3", 0, 0.1, 0.5), ran("at-grpo-greedy", 0, 0.1, 0.4)]
    rows += [replace(ran("c3", 1, 0.1, 0.9), **mine), replace(ran("at-grpo-greedy", 1, 0.1, 0.2), **theirs)]
    found = compare_arms(rows, NESTED, GREEDY, "plan-path", "sample")
    assert found.differences == pytest.approx([10.0, 70.0] if is_pair else [10.0])
    assert found.num_left_out == (0 if is_pair else 1)
    told = (
        "began elsewhere and are left out:\n- *team, C3*, less *team, AT-GRPO, best handed on*: 1 of 2 on plan-path\n\n"
    )
    assert (told in claims(rows, budget_tokens=1000)) == (not is_pair)


def test_arms_with_a_start_of_their_own_by_design_are_compared_by_number_of_seed_and_by_gain() -> None:
    rows = [ran("single", seed, 0.3, 0.6) for seed in range(2)]
    rows += [ran("at-grpo-greedy", seed, 0.1 + 0.1 * seed, 0.5) for seed in range(2)]
    found = compare_arms(rows, GREEDY, SINGLE, "plan-path", "greedy")
    assert (found.differences, found.num_left_out) == (pytest.approx([-10.0, -10.0]), 0)
    told = "less *single agent, GRPO*: plan-path, sample +5.0; plan-path, greedy +5.0"
    assert told in claims(rows, budget_tokens=1000).partition("by gain over the start of each")[2]


def test_the_budget_is_said_to_be_passed_by_as_much_as_it_was() -> None:
    assert "up to 6.8% more tokens than 1000" in claims([ran("single", 0, 0.1, 0.2)], budget_tokens=1000)


def test_an_arm_falls_only_if_every_seed_ends_below_its_start() -> None:
    rows = [ran("team-grpo", 0, 0.5, 0.4), ran("team-grpo", 1, 0.5, 0.38)]
    rows += [ran("c3", 0, 0.5, 0.4), ran("c3", 1, 0.5, 0.5)]
    lines = [line for line in falls(rows).splitlines() if line.startswith("-")]
    assert lines == [f"- *{TEAM}*, on plan-path, {sampling}: -10.0, -12.0" for sampling in ("sample", "greedy")]


def test_the_record_says_what_a_recomputation_with_scipy_finds() -> None:
    rows = [Trained(**json.loads(file.read_text())) for file in sorted(RECORD.glob("*.json"))]
    p_values = {}
    for arm, other in PAIRS:
        for game in {row.game for row in rows}:
            for sampling in ("sample", "greedy"):
                p_values[arm, other, game, sampling] = p_value_in(rows, arm, other, game, sampling)
    found = comparisons(rows)
    assert len(found) == len(p_values) == 48
    smallest, second = sorted(p_values.values())[:2]
    assert smallest * 48 < 0.05 < second * 47
    assert [p_values[each.arm, each.other, each.game, each.sampling] for each in found if each.survives] == [smallest]
    hints = {(each.arm, each.other, each.game, each.sampling) for each in found if each.is_hint}
    assert hints == {key for key, value in p_values.items() if smallest < value < 0.05}
    told = claims(rows, budget_tokens=300_000)
    assert "48 comparisons" in told
    assert f"{len(hints)} more leave 0 out" in told


def p_value_in(rows: list[Trained], arm: str, other: str, game: str, sampling: str) -> float:
    """That of a paired t-test over the rows with equal success before training, unless an arm has a start of its own."""
    (run, _), (other_run, _) = ARMS[arm], ARMS[other]
    pairs = [(a, b) for a in rows for b in rows if (a.run, b.run, a.seed, a.game) == (run, other_run, b.seed, b.game)]
    kept = [
        100 * (a.after[sampling] - b.after[sampling])
        for a, b in pairs
        if a.game == game and (a.before == b.before or arm in OWN_START or other in OWN_START)
    ]
    return float(ttest_1samp(kept, 0).pvalue) if len(kept) > 1 else 1.0
