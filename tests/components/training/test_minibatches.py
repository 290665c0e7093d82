from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from components.training.minibatches import balance_costs, minibatches, minibatches_of


@settings(deadline=None)
@given(num_groups=st.integers(0, 40), parts=st.integers(1, 6), seed=st.integers(0, 99))
def test_minibatches_are_an_even_partition(num_groups: int, parts: int, seed: int) -> None:
    split = minibatches(num_groups, num_minibatches=parts, seed=seed, seed_parts=(1, "p", 0))
    assert sorted(index for part in split for index in part) == list(range(num_groups))
    assert len(split) == min(parts, num_groups)
    sizes = {len(part) for part in split}
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_groups_without_signal_are_spread_too_and_move_no_other(make_groups: Callable[..., Any]) -> None:
    def split(groups: Any) -> list[list[int]]:
        return minibatches_of(groups, num_minibatches=4, seed=3, seed_parts=(1, "p", 0))

    telling = make_groups(9)
    silent = [replace(group, advantages_K=(0.0,) * 4) for group in make_groups(6)]
    found = split([*telling, *silent])
    assert sorted(index for part in found for index in part) == list(range(15))
    assert [[index for index in part if index < 9] for part in found] == split(telling)
    assert sorted(sum(index >= 9 for index in part) for part in found) == [1, 1, 2, 2]
    assert sorted(len(part) for part in split([telling[0], *silent])) == [1, 2, 2, 2]


def test_the_permutation_depends_on_every_part_of_its_seed() -> None:
    def order(seed: int, *parts: str | int) -> list[list[int]]:
        return minibatches(20, num_minibatches=2, seed=seed, seed_parts=parts)

    assert order(0, 1, "p", 0) == order(0, 1, "p", 0)
    others = [order(1, 1, "p", 0), order(0, 2, "p", 0), order(0, 1, "q", 0), order(0, 1, "p", 1)]
    assert all(other != order(0, 1, "p", 0) for other in others)


@settings(deadline=None)
@given(costs=st.lists(st.integers(1, 50), max_size=30), ranks=st.integers(1, 5))
def test_ranks_are_balanced_to_within_one_item(costs: list[int], ranks: int) -> None:
    parts = balance_costs(costs, ranks)
    assert sorted(index for part in parts for index in part) == list(range(len(costs)))
    loads = [sum(costs[index] for index in part) for part in parts]
    assert max(loads) - min(loads) <= max(costs, default=0)


def test_the_documented_example() -> None:
    assert balance_costs((5, 3, 3, 2), 2) == [[0, 3], [1, 2]]
