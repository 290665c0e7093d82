"""C3 compares what becomes of the candidates of one node with what becomes of the others."""

import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.registry import find_estimator
from components.schema import Episode
from tests.components.algorithms.episodes import episode, node
from tests.sections import choose_algorithm

C3 = choose_algorithm(advantage="c3")


def make_nested() -> Episode:
    """A first agent with two candidates, and below each a second agent with two; the first is played on by one answer each."""
    first = node("a", 0, 0, "tool", 2)
    below = [replace(node("a", 0, 0, "plan", 2), parent=(0, k) if k else None) for k in (0, 1)]
    further = [replace(node("a", 0, 1, "tool", 1), parent=(1, k)) for k in (0, 1)]
    return replace(episode("a", 0, ""), nodes=(first, *below, *further))


def test_each_candidate_is_compared_with_the_mean_of_the_others() -> None:
    # The leaves below the first agent's candidates earn (1, 0) and (0, 0): its values are (.5, 0).
    rewards = [((0.5, 0.0), (1.0, 0.0), (0.0, 0.0), (1.0,), (0.0,))]
    found = find_estimator("c3")([make_nested()], rewards, C3)
    assert found == [((0.5, -0.5), (1.0, -1.0), (0.0, 0.0), (None,), (None,))]


def test_three_candidates_by_hand() -> None:
    found = find_estimator("c3")([episode("a", 0, "t", num=3)], [((0.75, 0.25, 0.5),)], C3)
    assert found == [(pytest.approx((0.375, -0.375, 0.0)),)]


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=9), st.randoms(use_true_random=False), st.floats(-3, 3))
def test_it_is_its_definition_in_any_order_and_ignores_what_all_share(
    values_K: list[float], rng: object, shared: float
) -> None:
    rng.shuffle(values_K)  # type: ignore[attr-defined]
    played = episode("a", 0, "t", num=len(values_K))
    (((found),),) = find_estimator("c3")([played], [(tuple(values_K),)], C3)
    wanted = [value - statistics.fmean(values_K[:k] + values_K[k + 1 :]) for k, value in enumerate(values_K)]
    assert found == pytest.approx(wanted, abs=1e-9)
    (((moved),),) = find_estimator("c3")([played], [(tuple(value + shared for value in values_K),)], C3)
    assert moved == pytest.approx(found, abs=1e-9)
