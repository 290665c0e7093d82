"""REINFORCE++ normalises over the batch, so that equal rewards of a problem teach too."""

import statistics

import pytest

from components.algorithms.reinforce_pp import reinforce_pp_advantages
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

RPP = choose_algorithm(advantage="reinforce_pp", epsilon=1e-12)


def test_in_a_tree_all_candidates_are_one_batch() -> None:
    episodes = [episode("a", 0, "t", num=2), episode("b", 0, "t", num=2)]
    assert reinforce_pp_advantages(episodes, [((1.0, 1.0),), ((0.0, 0.0),)], RPP) == [
        (pytest.approx((1.0, 1.0)),),
        (pytest.approx((-1.0, -1.0)),),
    ]


def test_else_each_episodes_return_counts_once_and_is_shared_by_its_actions() -> None:
    episodes = [
        episode("a", 0, "tptp"),
        episode("b", 0, "p"),
        episode("c", 0, "t", error="broke"),
        episode("d", 0, "p"),
    ]
    rewards = [((9.0,), (9.0,), (9.0,), (3.0,)), ((1.0,),), ((7.0,),), ((0.5,),)]
    returns = [3.0, 1.0, 0.5]
    mean, deviation = statistics.fmean(returns), statistics.pstdev(returns)
    wanted = [(r - mean) / deviation for r in returns]
    found = reinforce_pp_advantages(episodes, rewards, RPP)
    assert found[0] == ((pytest.approx(wanted[0]),),) * 4
    assert [found[1], found[2], found[3]] == [
        ((pytest.approx(wanted[1]),),),
        ((None,),),
        ((pytest.approx(wanted[2]),),),
    ]


def test_a_batch_of_equal_returns_teaches_nothing() -> None:
    episodes = [episode("a", 0, "t", num=2), episode("b", 0, "t", num=2)]
    assert reinforce_pp_advantages(episodes, [((0.3, 0.3),), ((0.3, None),)], RPP) == [((0.0, 0.0),), ((0.0, None),)]
