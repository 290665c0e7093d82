"""Shortest walks to one cell of a grid with walls, tabulated once per board."""

from dataclasses import dataclass
from functools import lru_cache

from components.environments.games.grid import breadth_first, step_table

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
