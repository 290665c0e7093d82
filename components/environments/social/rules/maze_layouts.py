"""Mazes: three fixed ones and drawn ones, all with a way from the start to the goal."""

from collections import deque
from collections.abc import Mapping, Set
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from components.errors import ConfigurationError
from components.identity import seed_for

Cell = tuple[int, int]
"""Column and row; row 0 is the top."""

MOVES: Mapping[str, Cell] = MappingProxyType(
    {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0), "stay": (0, 0)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maze:
    """A grid with walls. Everybody starts at the top left; the goal is the bottom right."""

    width: int
    height: int
    walls: frozenset[Cell]

    def __post_init__(self) -> None:
        if self.width < 2 or self.height < 2:
            raise ConfigurationError(f"width {self.width}, height {self.height}: use 2 or more")
        if outside := sorted(cell for cell in self.walls if not self.holds(cell)):
            raise ConfigurationError(f"walls {outside}: outside of {self.width} x {self.height}")
        if self.goal not in distances(self.width, self.height, self.walls):
            raise ConfigurationError("walls: no way leads from the start to the goal; open one")

    @property
    def start(self) -> Cell:
        """The top left cell."""
        return (0, 0)

    @property
    def goal(self) -> Cell:
        """The bottom right cell."""
        return (self.width - 1, self.height - 1)

    def holds(self, cell: Cell) -> bool:
        """Whether the cell lies on the grid."""
        return 0 <= cell[0] < self.width and 0 <= cell[1] < self.height

    def is_free(self, cell: Cell) -> bool:
        """Whether the cell lies on the grid and is no wall."""
        return self.holds(cell) and cell not in self.walls

    @property
    def shortest(self) -> int:
        """The least number of moves from the start to the goal.

        **Example** 8 for the simple maze, 12 and 18 for the others: their walls need no detour.
        """
        return distances(self.width, self.height, self.walls)[self.goal]


def distances(width: int, height: int, walls: Set[Cell]) -> dict[Cell, int]:
    """The least number of moves from the top left to each cell that can be reached, by breadth-first search."""
    start = (0, 0)
    if start in walls:
        return {}
    found, ahead = {start: 0}, deque([start])
    while ahead:
        column, row = ahead.popleft()
        for dx, dy in MOVES.values():
            cell = (column + dx, row + dy)
            if 0 <= cell[0] < width and 0 <= cell[1] < height and cell not in walls and cell not in found:
                found[cell] = found[column, row] + 1
                ahead.append(cell)
    return found


LAYOUTS: Mapping[str, Maze] = MappingProxyType(
    {
        "simple": Maze(width=5, height=5, walls=frozenset({(2, 1), (2, 2), (2, 3)})),
        "medium": Maze(width=7, height=7, walls=frozenset({(2, 2), (2, 3), (3, 2), (4, 4), (4, 5)})),
        "complex": Maze(
            width=10,
            height=10,
            walls=frozenset({(3, y) for y in range(1, 8)} | {(6, y) for y in range(2, 9)}),
        ),
    }
)


def drawn_maze(width: int, height: int, *, wall_fraction: float, seed: int) -> Maze:
    """A maze with walls in random places: as many as `wall_fraction` of its cells, less those that would close the way.

    **Example** 10 x 10 at .3: 30 walls or a few less, and always a way.
    """
    if not 0 <= wall_fraction < 1:
        raise ConfigurationError(f"wall_fraction {wall_fraction}: use 0 to less than 1")
    goal = (width - 1, height - 1)
    cells = [(x, y) for y in range(height) for x in range(width) if (x, y) not in ((0, 0), goal)]
    Random(seed_for(seed, "maze", width, height)).shuffle(cells)
    walls: frozenset[Cell] = frozenset()
    for cell in cells[: int(wall_fraction * width * height)]:
        if goal in distances(width, height, walls | {cell}):
            walls |= {cell}
    return Maze(width=width, height=height, walls=walls)
