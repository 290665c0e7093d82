"""Algorithm X against trying all subsets."""

from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from components.environments.games.exact_cover import exact_covers

CHOICES = st.dictionaries(
    st.integers(0, 8), st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), max_size=8
)


def by_brute_force(choices: dict[int, list[int]]) -> set[frozenset[int]]:
    universe = sorted({constraint for met in choices.values() for constraint in met})
    return {
        frozenset(some)
        for count in range(len(choices) + 1)
        for some in combinations(choices, count)
        if sorted(constraint for choice in some for constraint in choices[choice]) == universe
    }


@given(CHOICES, st.none() | st.integers(0, 3))
def test_every_cover_is_found_once(choices: dict[int, list[int]], seed: int | None) -> None:
    found = list(exact_covers(choices, rng=None if seed is None else Random(seed)))
    assert len(found) == len({frozenset(cover) for cover in found})
    assert {frozenset(cover) for cover in found} == by_brute_force(choices)


def test_the_documented_example_has_one_cover() -> None:
    assert list(map(set, exact_covers({"a": [1, 2], "b": [3], "c": [2, 3]}))) == [{"a", "b"}]
