"""Queens against permutations."""

from itertools import permutations

import pytest

from components.environments.games.eight_queens import (
    EightQueensOptions,
    attacks,
    num_attacked,
    solutions,
)
from components.environments.registry import family

FAMILY = family("eight_queens")


def is_solution(columns: tuple[int, ...]) -> bool:
    size = len(columns)
    down = {row + column for row, column in enumerate(columns)}
    up = {row - column for row, column in enumerate(columns)}
    return len({*columns}) == len(down) == len(up) == size


@pytest.mark.parametrize("size", [4, 5, 6, 7])
def test_the_solutions_are_the_permutations_without_attacks(size: int) -> None:
    assert {*solutions(size)} == {columns for columns in permutations(range(size)) if is_solution(columns)}


def test_larger_boards_have_the_known_number_of_solutions() -> None:
    assert [len(solutions(size)) for size in (8, 9, 10)] == [92, 352, 724]


def test_attacks_by_hand() -> None:
    assert attacks(0, 0, 0, 3)
    assert attacks(0, 0, 3, 0)
    assert attacks(1, 4, 3, 2)
    assert not attacks(0, 0, 1, 2)
    assert not attacks(2, 2, 2, 2)
    assert num_attacked([0, 2, None, 3]) == 2


def test_given_queens_are_part_of_a_solution_and_their_number_is_as_asked() -> None:
    for index in range(50):
        options = EightQueensOptions(size=4 + index % 7, num_free=3)
        if options.size < 6:
            continue
        rows = FAMILY.problem(options, split="train", index=index, seed=0).payload["rows"]
        assert rows.count(".") == 3
        given = {row: "123456789A".index(mark) for row, mark in enumerate(rows) if mark != "."}
        assert any(all(columns[row] == column for row, column in given.items()) for columns in solutions(options.size))
