"""Baselines by role: closed forms, bit-exact resume, order of arrival, and the fault of normalising before summing."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.population.baselines import Outcome, RoleBaselines, role_advantages, sum_then_normalise

OUTCOMES = st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("ab"), st.floats(-9, 9)), max_size=20).map(
    lambda drawn: [Outcome(order=i, game=g, role=r, earned=v) for i, (g, r, v) in enumerate(drawn)]
)
TURNS = st.lists(
    st.lists(st.tuples(st.floats(-3, 3), st.sampled_from("ab")), min_size=1, max_size=5), min_size=1, max_size=5
)


def one_role(*returns: float) -> list[Outcome]:
    return [Outcome(order=i, game="kuhn", role="first", earned=value) for i, value in enumerate(returns)]


def test_the_baseline_is_the_one_from_before_the_episode() -> None:
    advantages, after = role_advantages(RoleBaselines(decay=0.5), one_role(1.0, 1.0))
    assert advantages == (1.0, 0.5)
    assert after.value("kuhn", "first") == 0.75
    assert after.value("kuhn", "second") == after.value("leduc", "first") == 0.0


@given(st.floats(-5, 5), st.floats(0, 0.99), st.integers(0, 40))
def test_a_constant_return_is_approached_geometrically(value: float, decay: float, num: int) -> None:
    advantages, after = role_advantages(RoleBaselines(decay=decay), one_role(*[value] * num))
    assert advantages == pytest.approx([value * decay**i for i in range(num)], abs=1e-9)
    assert after.value("kuhn", "first") == pytest.approx(value * (1 - decay**num), abs=1e-9)


def test_a_first_movers_edge_is_no_advantage() -> None:
    outcomes = [
        Outcome(order=order, game="kuhn", role=role, earned=edge)
        for order in range(300)
        for role, edge in (("first", 0.5), ("second", -0.5))
    ]
    advantages, _ = role_advantages(RoleBaselines(), outcomes)
    assert max(map(abs, advantages[-2:])) < 1e-6


@given(OUTCOMES, st.integers(0, 20), st.randoms(use_true_random=False))
def test_resumes_and_the_order_of_arrival_change_no_bit(outcomes: list[Outcome], kill: int, rng: Any) -> None:
    straight, wanted = role_advantages(RoleBaselines(), outcomes)
    early, middle = role_advantages(RoleBaselines(), outcomes[:kill])
    late, after = role_advantages(RoleBaselines(**json.loads(json.dumps(middle.to_json()))), outcomes[kill:])
    assert (early + late, after) == (straight, wanted)
    order = list(range(len(outcomes)))
    rng.shuffle(order)
    shuffled, after = role_advantages(RoleBaselines(), [outcomes[i] for i in order])
    assert ([shuffled[order.index(i)] for i in range(len(order))], after) == (list(straight), wanted)


@given(OUTCOMES)
def test_roles_and_games_do_not_touch_each_other(outcomes: list[Outcome]) -> None:
    together, _ = role_advantages(RoleBaselines(), outcomes)
    for game, role in {(each.game, each.role) for each in outcomes}:
        own = [index for index, each in enumerate(outcomes) if (each.game, each.role) == (game, role)]
        alone, _ = role_advantages(RoleBaselines(), [outcomes[index] for index in own])
        assert alone == tuple(together[index] for index in own)


def test_what_would_poison_the_state_is_refused() -> None:
    twice = [replace(one_role(1.0)[0], order=3)] * 2
    with pytest.raises(ConfigurationError, match="order: two outcomes"):
        role_advantages(RoleBaselines(), twice)
    with pytest.raises(ConfigurationError, match="earned nan of kuhn/first"):
        role_advantages(RoleBaselines(), one_role(float("nan")))
    with pytest.raises(ConfigurationError, match=r"decay 1\.5"):
        RoleBaselines(decay=1.5)


@given(TURNS, st.booleans())
def test_sums_are_normalised_by_role_as_numpy_does_it(turns: list[list[tuple[float, str]]], std: bool) -> None:
    rewards = [[reward for reward, _ in episode] for episode in turns]
    roles = [[role for _, role in episode] for episode in turns]
    found = sum_then_normalise(rewards, roles, normalise_std=std)
    sums = [
        [sum(r for r, other in episode[turn:] if other == role) for turn, (_, role) in enumerate(episode)]
        for episode in turns
    ]
    for role in "ab":
        of_role = np.array(
            [s for ss, rr in zip(sums, roles, strict=True) for s, r in zip(ss, rr, strict=True) if r == role]
        )
        flat = [a for aa, rr in zip(found, roles, strict=True) for a, r in zip(aa, rr, strict=True) if r == role]
        if flat:
            assert sum(flat) == pytest.approx(0, abs=1e-6)
            scale = of_role.std() + 1e-4 if std else 1.0
            assert flat == pytest.approx(((of_role - of_role.mean()) / scale).tolist(), abs=1e-6)


def test_to_normalise_before_summing_would_pay_for_short_games() -> None:
    """Two episodes that earn the same in all: sums give their first turns equal advantages, single rewards do not."""
    rewards, roles = [[0.0, 0.0, 1.0], [1.0]], [["a"] * 3, ["a"]]
    long, short = sum_then_normalise(rewards, roles)
    assert long == (0.0, 0.0, 0.0)
    assert short == (0.0,)
    mean = np.mean([0.0, 0.0, 1.0, 1.0])
    assert sum(np.array(rewards[0]) - mean) == -0.5
    assert sum(np.array(rewards[1]) - mean) == 0.5
