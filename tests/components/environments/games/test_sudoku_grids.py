"""Sudoku grids: boxes, solutions and uniqueness, against a plain backtracking counter."""

from itertools import product
from random import Random

import pytest

from components.environments.games.sudoku_grids import (
    BOX_SHAPES,
    Grid,
    boxes_of,
    only_solution,
    peers_of,
    random_solution,
    solutions,
    with_blanks,
)

SIZES = tuple(BOX_SHAPES)


def is_valid(grid: Grid, size: int) -> bool:
    """Every row, column and box holds 1 to size, counted by slicing."""
    height, width = {4: (2, 2), 6: (2, 3), 9: (3, 3), 16: (4, 4)}[size]
    rows = [grid[row * size : (row + 1) * size] for row in range(size)]
    columns = list(zip(*rows, strict=True))
    boxes = [
        [rows[top + down][left + right] for down, right in product(range(height), range(width))]
        for top, left in product(range(0, size, height), range(0, size, width))
    ]
    return all(sorted(line) == list(range(1, size + 1)) for line in [*rows, *columns, *boxes])


def count_solutions(grid: list[int], size: int, height: int, width: int) -> int:
    """All solutions, cell by cell in reading order, with no shared code."""
    if 0 not in grid:
        return 1
    cell = grid.index(0)
    row, column = divmod(cell, size)
    top, left = row - row % height, column - column % width
    total = 0
    for number in range(1, size + 1):
        in_row = number in grid[row * size : (row + 1) * size]
        in_column = number in grid[column::size]
        in_box = any(number in grid[(top + down) * size + left :][:width] for down in range(height))
        if not (in_row or in_column or in_box):
            grid[cell] = number
            total += count_solutions(grid, size, height, width)
            grid[cell] = 0
    return total


@pytest.mark.parametrize("size", SIZES)
def test_every_cell_has_the_right_number_of_peers(size: int) -> None:
    height, width = BOX_SHAPES[size]
    assert height * width == size
    expected = 2 * (size - 1) + (height - 1) * (width - 1)
    assert {len(peers) for peers in peers_of(size)} == {expected}
    assert all(boxes_of(size).count(box) == size for box in range(size))


@pytest.mark.parametrize("size", SIZES)
def test_random_solutions_are_valid_and_differ(size: int) -> None:
    drawn = {random_solution(size, Random(seed)) for seed in range(12)}
    assert all(is_valid(grid, size) for grid in drawn)
    assert len(drawn) > 8


def test_all_grids_of_size_four_are_found_and_drawn() -> None:
    every = set(solutions((0,) * 16, 4))
    assert len(every) == 288
    rng = Random(0)
    assert {random_solution(4, rng) for _ in range(3000)} == every


@pytest.mark.parametrize(("size", "num_blanks"), [(4, 3), (4, 6), (4, 11), (6, 12), (6, 22), (9, 30)])
def test_grids_with_blanks_have_exactly_one_solution_by_brute_force(size: int, num_blanks: int) -> None:
    num_made = 0
    for seed in range(20):
        solution = random_solution(size, Random(seed))
        grid = with_blanks(solution, size, num_blanks=num_blanks, rng=Random(seed))
        if grid is not None:
            num_made += 1
            assert grid.count(0) == num_blanks
            assert all(number in (0, solution[cell]) for cell, number in enumerate(grid))
            assert count_solutions(list(grid), size, *BOX_SHAPES[size]) == 1
            assert only_solution(grid, size) == solution
    assert num_made >= 5


@pytest.mark.parametrize("seed", range(30))
def test_solutions_are_counted_right_whether_unique_or_not(seed: int) -> None:
    rng = Random(seed)
    grid = list(random_solution(4, rng))
    for cell in rng.sample(range(16), 10):
        grid[cell] = 0
    expected = count_solutions(list(grid), 4, 2, 2)
    assert len(list(solutions(tuple(grid), 4))) == expected
    assert (only_solution(tuple(grid), 4) is not None) == (expected == 1)


def test_clues_that_clash_leave_no_solution() -> None:
    assert list(solutions((1, 1, *(0,) * 14), 4)) == []
    full = random_solution(4, Random(0))
    assert list(solutions(full, 4)) == [full]
