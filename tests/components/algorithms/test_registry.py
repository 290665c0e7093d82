"""Laws that every estimator keeps, in trees and over whole episodes."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.registry import ESTIMATORS, find_estimator
from components.config.algorithm import Algorithm
from components.config.variants import list_variants
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

TREE = ["at_grpo", "dr_mas", "rloo", "reinforce_pp", "dr_grpo", "c3"]
EPISODES = ["grpo", "dr_mas", "rloo", "reinforce_pp", "dr_grpo", "gigpo"]
reward = st.none() | st.sampled_from([0.0, 0.5, 1.0, 1.3])


@st.composite
def trees(draw: Any) -> tuple[list[Any], list[Any]]:
    shapes = draw(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "t", "tp", "tptp"])), max_size=5))
    episodes = [episode(problem, number, agents, num=3) for number, (problem, agents) in enumerate(shapes)]
    return episodes, [tuple(tuple(draw(reward) for _ in range(3)) for _ in e.nodes) for e in episodes]


@st.composite
def independent_episodes(draw: Any) -> tuple[list[Any], list[Any]]:
    shapes = draw(
        st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "t", "tp"]), st.booleans()), max_size=6)
    )
    episodes = [
        episode(problem, number, agents, error="broke" if broken else None)
        for number, (problem, agents, broken) in enumerate(shapes)
    ]
    return episodes, [tuple((draw(reward),) for _ in e.nodes) for e in episodes]


def flat(values_E_N_K: Any) -> list[Any]:
    return [value for values_N_K in values_E_N_K for values_K in values_N_K for value in values_K]


@settings(max_examples=40, deadline=None)
@given(trees(), st.sampled_from(TREE))
def test_in_a_tree_a_missing_reward_has_no_advantage_and_the_rest_sums_to_zero(played: Any, name: str) -> None:
    episodes, rewards = played
    found = find_estimator(name)(episodes, rewards, choose_algorithm(advantage=name))
    assert [[len(k) for k in n] for n in found] == [[len(k) for k in n] for n in rewards]
    assert [a is None for a in flat(found)] == [r is None for r in flat(rewards)]
    assert math.fsum(a for a in flat(found) if a is not None) == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(independent_episodes(), st.sampled_from(EPISODES))
def test_a_failed_episode_is_out_and_does_not_move_the_others(played: Any, name: str) -> None:
    episodes, rewards = played
    algorithm = choose_algorithm(advantage=name)
    found = find_estimator(name)(episodes, rewards, algorithm)
    sound = [index for index, e in enumerate(episodes) if e.error is None]
    alone = find_estimator(name)([episodes[i] for i in sound], [rewards[i] for i in sound], algorithm)
    assert flat([found[i] for i in sound]) == pytest.approx(flat(alone))
    assert {*flat([found[i] for i in range(len(episodes)) if i not in sound])} <= {None}


@settings(max_examples=40, deadline=None)
@given(trees(), st.sampled_from(TREE), st.randoms(use_true_random=False))
def test_the_order_of_episodes_and_candidates_moves_advantages_and_changes_none(
    played: Any, name: str, rng: Any
) -> None:
    episodes, rewards = played
    algorithm = choose_algorithm(advantage=name)
    found = find_estimator(name)(episodes, rewards, algorithm)
    order, places = list(range(len(episodes))), [0, 1, 2]
    rng.shuffle(order)
    rng.shuffle(places)
    moved = [tuple(tuple(rewards_K[k] for k in places) for rewards_K in rewards[i]) for i in order]
    again = find_estimator(name)([episodes[i] for i in order], moved, algorithm)
    wanted = [tuple(tuple(advantages_K[k] for k in places) for advantages_K in found[i]) for i in order]
    assert flat(again) == pytest.approx(flat(wanted), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(trees(), st.sampled_from(TREE), st.data())
def test_a_continuation_is_out_and_moves_nobody(played: Any, name: str, data: Any) -> None:
    episodes, rewards = played
    algorithm = choose_algorithm(advantage=name)
    found = find_estimator(name)(episodes, rewards, algorithm)
    continued, more = [], []
    for each, rewards_N_K in zip(episodes, rewards, strict=True):
        below = [replace(n, candidates=n.candidates[:1], parent=(0, 0)) for n in each.nodes]
        continued.append(replace(each, nodes=(*each.nodes, *below)))
        more.append((*rewards_N_K, *((data.draw(reward),) for _ in below)))
    again = find_estimator(name)(continued, more, algorithm)
    assert [n[: len(each.nodes)] for n, each in zip(again, episodes, strict=True)] == found
    assert {*flat([n[len(each.nodes) :] for n, each in zip(again, episodes, strict=True)])} <= {None}


@given(st.sampled_from(sorted({*ESTIMATORS} - {"solver_value", "role_baseline", "gae"})), st.floats(-3, 3))
def test_one_answer_alone_or_equal_ones_teach_nothing(name: str, earned: float) -> None:
    algorithm = choose_algorithm(advantage=name)
    for num in (1, 4):
        assert not any(flat(find_estimator(name)([episode("a", 0, "t", num=num)], [((earned,) * num,)], algorithm)))


def test_every_name_of_the_configuration_has_an_estimator() -> None:
    assert set(ESTIMATORS) == set(list_variants(Algorithm))
