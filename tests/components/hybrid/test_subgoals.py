"""A teacher is read line by line, and cannot pay more than its cap, whatever it asks for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.hybrid.game_facts import LARGEST, no_facts
from components.hybrid.rewards import Records, RewardWeights, reward_terms
from components.hybrid.subgoals import LARGEST_SHARE, MOST_SUBGOALS, cap_pay, read_lesson, subgoals_met


def test_good_lines_are_kept_and_bad_ones_refused_by_number() -> None:
    lesson = read_lesson(
        "starter: party_count > 0\n\nwin: fight()\nstarter: x > 1\nno condition here\n: x > 1\n", LARGEST
    )
    assert [subgoal.name for subgoal in lesson.subgoals] == ["starter"]
    assert [refusal.partition(":")[0] for refusal in lesson.refusals] == ["line 3", "line 4", "line 5", "line 6"]
    assert "choose another name" in lesson.refusals[1]


def test_a_teacher_cannot_ask_for_everything() -> None:
    lesson = read_lesson("\n".join(f"g{k}: x > {k}" for k in range(MOST_SUBGOALS + 3)), LARGEST)
    assert len(lesson.subgoals) == MOST_SUBGOALS
    assert len(lesson.refusals) == 3


def test_a_subgoal_stays_met() -> None:
    subgoals = read_lesson("east: x >= 8\nnorth: y <= 2", LARGEST).subgoals
    facts = no_facts(2) | {"x": np.array([8, 0]), "y": np.array([5, 5])}
    met = subgoals_met(subgoals, facts, np.zeros((2, 2), np.bool_))
    assert met.tolist() == [[True, False], [False, False]]
    again = subgoals_met(subgoals, facts | {"x": np.array([0, 0]), "y": np.array([1, 9])}, met)
    assert again.tolist() == [[True, True], [False, False]]
    assert subgoals_met((), facts, np.zeros((2, 0), np.bool_)).shape == (2, 0)


def test_the_examples_of_the_pay() -> None:
    assert cap_pay(12, wanted=10, smallest_goal=25) == pytest.approx(0.52, abs=1e-3)
    assert cap_pay(3, wanted=1, smallest_goal=25) == 1
    with pytest.raises(ConfigurationError, match="positive"):
        cap_pay(3, wanted=-1, smallest_goal=25)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=MOST_SUBGOALS),
    st.lists(st.integers(0, 9), max_size=12),
    st.floats(0.01, 1e6),
)
def test_a_wrong_teacher_pays_less_than_the_smallest_goal(asked: list[int], walk: list[int], wanted: float) -> None:
    lesson = read_lesson("\n".join(f"g{number}: x == {x}" for number, x in enumerate(asked)), LARGEST)
    weights = RewardWeights()
    pay = cap_pay(len(lesson.subgoals), wanted=wanted, smallest_goal=weights.party)
    weights = RewardWeights(subgoals=pay, step=0.0)
    met, records, earned = np.zeros((1, len(asked)), np.bool_), Records.none(1), 0.0
    for x in walk:
        facts = no_facts(1) | {"x": np.array([x])}
        met = subgoals_met(lesson.subgoals, facts, met)
        zero = np.zeros(1, np.int64)
        after = records.with_state(facts, tiles=zero, maps=zero, subgoals=met.sum(axis=1))
        earned += float(reward_terms(records, after, weights)["subgoals"][0])
        records = after
    assert earned <= LARGEST_SHARE * weights.party + 1e-9
    assert earned == pytest.approx(pay * sum(x in walk for x in asked))
