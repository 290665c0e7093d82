"""Credits of decisions: the example, and the recursion that whole returns obey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hybrid.decision_log import n_step_returns


def test_the_example_of_the_docstring() -> None:
    assert n_step_returns([0, 0, 1], 2, 0.5) == [0, 0.5, 1]
    assert n_step_returns([], 3) == []


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=20), st.floats(0, 1))
def test_beyond_the_end_they_are_the_returns_of_the_recursion(rewards: list[float], discount: float) -> None:
    wanted = [0.0]
    for reward in reversed(rewards):
        wanted.append(reward + discount * wanted[-1])
    assert n_step_returns(rewards, 20, discount) == pytest.approx(wanted[:0:-1])
    assert n_step_returns(rewards, 1, discount) == pytest.approx(rewards)
