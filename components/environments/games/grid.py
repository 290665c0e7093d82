"""Square grids whose cells are numbered row by row, and steps on them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from components.environments.games.parsing import MOVES

DIRECTIONS = dict(zip(MOVES, ((-1, 0), (1, 0), (0, -1), (0, 1)), strict=True))
WALL = "#"
FLOOR = "."
OUTSIDE = -1


@cache
def neighbours(size: int) -> tuple[tuple[int, ...], ...]:
    """For each cell its four neighbours in the order of MOVES; OUTSIDE beyond the edge."""
    return tuple(
        tuple(
            (row + down) * size + column + right if 0 <= row + down < size and 0 <= column + right < size else OUTSIDE
            for down, right in DIRECTIONS.values()
        )
        for row in range(size)
        for column in range(size)
    )


@lru_cache(maxsize=8192)
def step_table(walls: str, size: int) -> tuple[tuple[int, ...], ...]:
    """For each cell the cell after each move of MOVES; a wall or the edge blocks the move."""
    return tuple(
        tuple(cell if there == OUTSIDE or walls[there] == WALL else there for there in beside)
        for cell, beside in enumerate(neighbours(size))
    )


def cell_at(place: Sequence[int], size: int) -> int:
    """The cell at (row, column) `place`."""
    return place[0] * size + place[1]


@cache
def coordinates_text(size: int) -> tuple[str, ...]:
    """For each cell its row and column, counted from 0 and zero-padded: in size 12 cell 13 is `"0101"`."""
    width = len(str(size - 1))
    return tuple(f"{row:0{width}d}{column:0{width}d}" for row in range(size) for column in range(size))


def rows_of(cells: str, size: int) -> list[str]:
    return [cells[start : start + size] for start in range(0, size * size, size)]


def rows_text(cells: str, size: int) -> str:
    """The rows, each followed by a line feed."""
    return "\n".join([*rows_of(cells, size), ""])


def breadth_first(start: int, following: Callable[[int], Iterable[int]]) -> dict[int, int]:
    """The number of steps from `start` to every cell within reach; `following` gives the cells one step further."""
    distances, queue = {start: 0}, [start]
    for cell in queue:
        for there in following(cell):
            if there not in distances:
                distances[there] = distances[cell] + 1
                queue.append(there)
    return distances


UNREACHABLE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkTable:
    """The step table of a board, and for each cell its distance to the goal in moves and the moves that come nearer."""

    steps: tuple[tuple[int, ...], ...]
    distances: tuple[int, ...]
    """UNREACHABLE for walls and cells that are cut off."""
    shortest: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=8192)
def walk_table(walls: str, size: int, goal: int) -> WalkTable:
    """The table of a board. `walls` has one character per cell, WALL or another; `goal` is not a wall."""
    steps = step_table(walls, size)
    found = breadth_first(goal, steps.__getitem__)  # steps between free cells are reversible
    distances = tuple(found.get(cell, UNREACHABLE) for cell in range(len(walls)))
    shortest = tuple(
        tuple(move for move, there in enumerate(steps[cell]) if distances[there] == distance - 1)
        if distance > 0
        else ()
        for cell, distance in enumerate(distances)
    )
    return WalkTable(steps=steps, distances=distances, shortest=shortest)
