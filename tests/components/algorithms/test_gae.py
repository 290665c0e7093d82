"""Generalised advantage estimation against its definition: the weighted sum of one-step errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.gae import Credited, gae_advantages

SHARE = st.floats(0, 1)
STEPS = st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 3), st.floats(-5, 5)), min_size=1, max_size=6)


def chain(name: str, steps: list[tuple[float, int, float]], discount: float) -> tuple[list[Credited], list[float]]:
    """The actions of (reward until the next action, moves until it, value), with the returns of Bellman's equation."""
    earned, found = 0.0, []
    move = sum(moves for _, moves, _ in steps)
    for reward, moves, value in reversed(steps):
        move -= moves
        earned = reward + discount**moves * earned
        found.append((Credited(chain=name, move=move, earned=earned), value))
    actions, values = zip(*reversed(found), strict=True)
    return list(actions), list(values)


def test_two_actions_by_hand() -> None:
    actions, values = chain("ann", [(1, 1, 1), (2, 1, 1)], 0.9)
    assert [action.earned for action in actions] == pytest.approx([2.8, 2])
    assert gae_advantages(actions, values, discount=0.9, trace=0.5) == pytest.approx([1.35, 1])


@given(STEPS, STEPS, SHARE, SHARE)
def test_advantages_are_weighted_sums_of_errors_chain_by_chain(
    ann: list[tuple[float, int, float]], bob: list[tuple[float, int, float]], discount: float, trace: float
) -> None:
    wanted = []
    for steps in (ann, bob):
        ends = [*steps[1:], (0.0, 0, 0.0)]
        errors = [r + discount**n * after[2] - v for (r, n, v), after in zip(steps, ends, strict=True)]
        for start in range(len(steps)):
            total, weight = 0.0, 1.0
            for error, (_, moves, _) in zip(errors[start:], steps[start:], strict=True):
                total += weight * error
                weight *= discount**moves * trace
            wanted.append(total)
    (one, one_values), (two, two_values) = chain("ann", ann, discount), chain("bob", bob, discount)
    actions, values = [*one, *two], [*one_values, *two_values]
    assert gae_advantages(actions, values, discount=discount, trace=trace) == pytest.approx(wanted, abs=1e-9)
    turned = gae_advantages(actions[::-1], values[::-1], discount=discount, trace=trace)
    assert turned[::-1] == pytest.approx(wanted, abs=1e-9)  # the order in a batch does not matter


@given(STEPS, SHARE)
def test_a_trace_of_one_compares_whole_returns(steps: list[tuple[float, int, float]], discount: float) -> None:
    actions, values = chain("ann", steps, discount)
    wanted = [action.earned - value for action, value in zip(actions, values, strict=True)]
    assert gae_advantages(actions, values, discount=discount, trace=1.0) == pytest.approx(wanted, abs=1e-9)
