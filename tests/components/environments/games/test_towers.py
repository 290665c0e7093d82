"""Towers against a breadth-first search over all arrangements."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.games.blocksworld import solver_states
from components.environments.games.towers import (
    BLOCKS,
    TABLE,
    arrangement_of,
    find_misplaced,
    good_moves,
    move_block,
    moves_needed,
    random_arrangement,
    towers_of,
    towers_text,
)

NUM_ARRANGEMENTS = {3: 13, 4: 73, 5: 501}
"""Ways to stack n blocks: sets of lists, OEIS A000262."""


def move_by_hand(towers: list[list[str]], block: str, onto: str) -> list[list[str]]:
    """The towers after a move; unchanged where it cannot be made."""
    tops = {tower[-1]: tower for tower in towers}
    if block not in tops or block == onto or (onto != TABLE and onto not in tops):
        return towers
    after = [tower[:-1] if tower is tops[block] else tower for tower in towers]
    after = [[*tower, block] if onto != TABLE and tower and tower[-1] == onto else tower for tower in after]
    return [tower for tower in after if tower] + ([[block]] if onto == TABLE else [])


def distances_by_search(goal: str) -> dict[str, int]:
    """The fewest moves to `goal` from every arrangement; moves can be taken back."""
    blocks = BLOCKS[: len(goal)]
    distances, frontier = {goal: 0}, [goal]
    for below in frontier:
        for block in blocks:
            for onto in blocks + TABLE:
                towers = move_by_hand([[*tower] for tower in towers_of(below)], block, onto)
                following = arrangement_of(["".join(tower) for tower in towers])
                if following not in distances:
                    distances[following] = distances[below] + 1
                    frontier.append(following)
    return distances


@pytest.mark.parametrize("num_blocks", [3, 4, 5])
def test_the_solver_is_nearly_always_optimal_and_never_twice_as_long(num_blocks: int) -> None:
    rng = Random(0)
    num_optimal = num_states = 0
    for _ in range(3):
        goal = random_arrangement(num_blocks, rng)
        distances = distances_by_search(goal)
        assert len(distances) == NUM_ARRANGEMENTS[num_blocks]
        for below, distance in distances.items():
            length = len(solver_states(below, goal)) - 1
            assert moves_needed(below, goal) <= distance <= length <= 2 * distance
            assert (moves_needed(below, goal) == 0) == (below == goal)
            num_optimal += length == distance
            num_states += 1
    assert num_optimal / num_states > 0.99


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), num_blocks=st.integers(1, 12))
def test_moves_conserve_blocks_and_match_towers_moved_by_hand(seed: int, num_blocks: int) -> None:
    rng = Random(seed)
    below = random_arrangement(num_blocks, rng)
    assert arrangement_of(towers_of(below)) == below
    for _ in range(20):
        block, onto = rng.choice(BLOCKS[:num_blocks]), rng.choice(BLOCKS[:num_blocks] + TABLE)
        by_hand = move_by_hand([[*tower] for tower in towers_of(below)], block, onto)
        following = move_block(below, block, onto)
        assert sorted(map("".join, by_hand)) == sorted(towers_of(following or below))
        below = following or below
        assert Counter("".join(towers_of(below))) == Counter(BLOCKS[:num_blocks])
        assert len(towers_text(below, "-")) == 2 * num_blocks - 1


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10_000), num_blocks=st.integers(2, 12))
def test_every_good_move_can_be_made_and_the_solver_ends(seed: int, num_blocks: int) -> None:
    rng = Random(seed)
    below, goal = random_arrangement(num_blocks, rng), random_arrangement(num_blocks, rng)
    for _ in range(2 * num_blocks):
        moves = good_moves(below, goal)
        if not moves:
            break
        for block, onto in moves:
            assert move_block(below, block, onto) is not None
        below = move_block(below, *rng.choice(moves)) or below
    assert below == goal


def test_an_arrangement_by_hand() -> None:
    below = arrangement_of(["bac", "d"])
    assert below == "b0a0"
    assert towers_of(below) == ["bac", "d"]
    assert towers_text(below, "-") == "bac.d--"
    assert move_block(below, "c", "d") == "b0d0"
    for block, onto in (("a", "d"), ("d", "a"), ("c", "a"), ("c", "c"), ("d", TABLE)):
        assert move_block(below, block, onto) is None


def test_what_is_wrong_underneath_is_wrong_above() -> None:
    below, goal = arrangement_of(["abcd"]), arrangement_of(["acd", "b"])
    assert find_misplaced(below, goal) == {"b", "c", "d"}
    assert moves_needed(below, goal) == 5
    assert distances_by_search(goal)[below] == 5
    assert good_moves(below, goal) == ["d0"]
