"""Shortest walks to one cell of a grid with walls, tabulated once a board."""

from dataclasses import dataclass
from functools import lru_cache

from components.environments.games.grid import step_table

UNREACHABLE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkTable:
    """Where each move leads and how far each cell is from the goal.

    `steps` is the board's step table. `distances[cell]` is the
    number of moves to the goal, UNREACHABLE for walls and cells cut off. `shortest[cell]` lists the moves that come nearer.
    """

    steps: tuple[tuple[int, ...], ...]
    distances: tuple[int, ...]
    shortest: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=8192)
def walk_table(walls: str, size: int, goal: int) -> WalkTable:
    """The table of a board. `walls` has one character per cell, WALL where the walker cannot stand; `goal` is not a wall."""
    steps = step_table(walls, size)
    distances = _distances(walls, steps, goal)
    shortest = tuple(
        tuple(move for move, there in enumerate(steps[cell]) if distances[there] == distance - 1)
        if distance > 0
        else ()
        for cell, distance in enumerate(distances)
    )
    return WalkTable(steps=steps, distances=tuple(distances), shortest=shortest)


def _distances(walls: str, steps: tuple[tuple[int, ...], ...], goal: int) -> list[int]:
    """Breadth-first search from the goal. A step between two free cells can always be taken back."""
    distances = [UNREACHABLE] * len(walls)
    distances[goal] = 0
    frontier = [goal]
    while frontier:
        reached = []
        for cell in frontier:
            for there in steps[cell]:
                if distances[there] == UNREACHABLE:
                    distances[there] = distances[cell] + 1
                    reached.append(there)
        frontier = reached
    return distances
