"""Sudoku grids: box shapes, solving by exact cover, full grids, grids with blanks and one solution, and pictures."""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from random import Random

from components.environments.games.exact_cover import exact_covers
from components.environments.games.parsing import SYMBOLS
from components.environments.shared.pictures import apply_style

Grid = tuple[int, ...]
"""The numbers row by row: 1 to size, 0 for blank."""

BOX_SHAPES = {4: (2, 2), 6: (2, 3), 9: (3, 3), 16: (4, 4)}
"""For each size the rows and columns of a box."""

_LARGEST_SEARCHED = 6
"""Up to this size full grids are drawn by search, from all grids; larger ones are shuffled from one pattern."""
_CLUE, _OWN = "1", "36"


@cache
def boxes_of(size: int) -> tuple[int, ...]:
    """For each cell the index of its box: in size 6 the first row is in boxes 0, 0, 0, 1, 1, 1."""
    height, width = BOX_SHAPES[size]
    return tuple(row // height * (size // width) + column // width for row in range(size) for column in range(size))


@cache
def peers_of(size: int) -> tuple[tuple[int, ...], ...]:
    """For each cell the other cells in its row, column or box."""
    boxes = boxes_of(size)
    cells = range(size * size)
    return tuple(
        tuple(
            other
            for other in cells
            if other != cell
            and (other // size == cell // size or other % size == cell % size or boxes[other] == boxes[cell])
        )
        for cell in cells
    )


def candidates(grid: Sequence[int], cell: int, size: int) -> list[int]:
    """The numbers that no peer of `cell` holds."""
    taken = {grid[peer] for peer in peers_of(size)[cell]}
    return [number for number in range(1, size + 1) if number not in taken]


def solutions(grid: Grid, size: int, *, rng: Random | None = None) -> Iterator[Grid]:
    """Every way to fill the blanks, lazily; none if two clues clash."""
    if any(number and number in (grid[peer] for peer in peers_of(size)[cell]) for cell, number in enumerate(grid)):
        return
    blanks = {cell: candidates(grid, cell, size) for cell, number in enumerate(grid) if number == 0}
    if not all(blanks.values()):
        return
    yield from _fillings(grid, size, blanks, rng)


def _fillings(grid: Grid, size: int, blanks: dict[int, list[int]], rng: Random | None = None) -> Iterator[Grid]:
    """The exact covers of the constraints: one number per blank; each number once per row, column and box."""
    boxes = boxes_of(size)
    choices = {
        (cell, number): (
            ("cell", cell),
            ("row", cell // size, number),
            ("column", cell % size, number),
            ("box", boxes[cell], number),
        )
        for cell, numbers in blanks.items()
        for number in numbers
    }
    for cover in exact_covers(choices, rng=rng):
        filled = list(grid)
        for cell, number in cover:
            filled[cell] = number
        yield tuple(filled)


@lru_cache(maxsize=8192)
def only_solution(grid: Grid, size: int) -> Grid | None:
    """The solution of a grid with exactly one; None if it has none or several."""
    found = list(islice(solutions(grid, size), 2))
    return found[0] if len(found) == 1 else None


def random_solution(size: int, rng: Random) -> Grid:
    """A full valid grid."""
    if size <= _LARGEST_SEARCHED:
        return next(solutions((0,) * (size * size), size, rng=rng))
    height, width = BOX_SHAPES[size]
    rows, columns = _shuffle_lines(size, height, rng), _shuffle_lines(size, width, rng)
    numbers = rng.sample(range(1, size + 1), size)
    pattern = (numbers[(row % height * width + row // height + column) % size] for row in rows for column in columns)
    return tuple(pattern)


def _shuffle_lines(size: int, per_band: int, rng: Random) -> list[int]:
    """The indices of all rows (or columns), shuffled within each band of boxes, and the bands shuffled too."""
    bands = rng.sample(range(size // per_band), size // per_band)
    return [band * per_band + line for band in bands for line in rng.sample(range(per_band), per_band)]


def with_blanks(solution: Grid, size: int, *, num_blanks: int, rng: Random) -> Grid | None:
    """`solution` with `num_blanks` cells emptied such that it stays the only solution; None if this order of cells fails.

    Emptying a cell adds a solution only if another number fits there, so each step checks that cell alone.
    """
    grid = list(solution)
    remaining = num_blanks
    for cell in rng.sample(range(size * size), size * size):
        if remaining == 0:
            break
        number, grid[cell] = grid[cell], 0
        if _another_fits(tuple(grid), size, cell, number):
            grid[cell] = number
        else:
            remaining -= 1
    return tuple(grid) if remaining == 0 else None


def _another_fits(grid: Grid, size: int, cell: int, number: int) -> bool:
    """Whether the grid can be solved with something else than `number` in the blank `cell`."""
    blanks = {blank: candidates(grid, blank, size) for blank, held in enumerate(grid) if held == 0}
    blanks[cell].remove(number)
    return all(blanks.values()) and next(_fillings(grid, size, blanks), None) is not None


def grid_picture(numbers: Grid, clues: Grid, size: int, *, color: bool) -> str:
    """The grid for people, with lines between boxes: blanks are dots, own numbers coloured, or marked with ' in plain ASCII."""
    height, width = BOX_SHAPES[size]
    lines = []
    for row in range(size):
        cells = [
            _cell(numbers[cell], is_clue=clues[cell] != 0, color=color) for cell in range(row * size, (row + 1) * size)
        ]
        boxes = ["".join(cells[start : start + width]) for start in range(0, size, width)]
        if row and row % height == 0:
            lines.append("+".join("-" * (2 * width + 1) for _ in boxes)[1:])
        lines.append("| ".join(boxes).rstrip())
    return "\n".join(lines)


def _cell(number: int, *, is_clue: bool, color: bool) -> str:
    if number == 0:
        return ". "
    symbol = SYMBOLS[number - 1]
    if color:
        return apply_style(symbol, _CLUE if is_clue else _OWN) + " "
    return symbol + (" " if is_clue else "'")
