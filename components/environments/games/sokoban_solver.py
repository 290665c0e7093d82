"""Sokoban: how far boxes are from goals, and solutions with the fewest moves (A* over pushes)."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from components.environments.games.grid import breadth_first, step_table
from components.environments.games.parsing import MOVES

Boxes = tuple[int, ...]
"""The cells of the boxes, in ascending order."""
SokobanState = tuple[int, Boxes]
"""The player's cell and the boxes."""

_OPPOSITE = (1, 0, 3, 2)
"""For each index of a move in MOVES, the index of the opposite move."""


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The constant part: walls (one character per cell), size, and the goals in ascending order."""

    walls: str
    size: int
    goals: Boxes

    @property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        return step_table(self.walls, self.size)


def move_boxes(boxes: Boxes, source: int, target: int) -> Boxes:
    """The boxes after one moved from `source` to `target`."""
    return tuple(sorted(target if box == source else box for box in boxes))


@lru_cache(maxsize=8192)
def pushes_to_goals(warehouse: Warehouse) -> tuple[tuple[float, ...], ...]:
    """For each goal and each cell: the pushes that bring a single box from the cell to the goal; infinite if impossible."""
    steps = warehouse.steps

    def list_pulls_into(cell: int) -> Iterator[int]:
        """A box pushed into `cell` came from one step back, its pusher from two."""
        for back, source in enumerate(steps[cell]):
            if source != cell and steps[source][back] != source:
                yield source

    reached = [breadth_first(goal, list_pulls_into) for goal in warehouse.goals]
    return tuple(tuple(pushes.get(cell, inf) for cell in range(len(steps))) for pushes in reached)


@lru_cache(maxsize=65536)
def assign_pushes(warehouse: Warehouse, boxes: Boxes) -> float:
    """The minimum number of pushes that bring each box to its own goal, ignoring that boxes block each other.

    A lower bound of the true number; 0 exactly if all boxes are on goals, infinite if some box is lost.
    """
    pushes = pushes_to_goals(warehouse)
    best: dict[int, float] = {0: 0.0}
    for box in boxes:
        following: dict[int, float] = {}
        for used, so_far in best.items():
            for goal, table in enumerate(pushes):
                total = so_far + table[box]
                if not used >> goal & 1 and total < following.get(used | 1 << goal, inf):
                    following[used | 1 << goal] = total
        best = following
    return min(best.values(), default=inf)


def walks(warehouse: Warehouse, state: SokobanState) -> dict[int, str]:
    """The cells that the player can reach without a push, each with the moves of a shortest walk there."""
    steps, (player, boxes) = warehouse.steps, state
    reached, queue = {player: ""}, [player]
    for cell in queue:
        for move, there in zip(MOVES, steps[cell], strict=True):
            if there not in reached and there not in boxes:
                reached[there] = reached[cell] + move
                queue.append(there)
    return reached


@lru_cache(maxsize=16384)
def solution(warehouse: Warehouse, state: SokobanState, max_expansions: int = 20_000) -> str | None:
    """The moves of a shortest solution; None if there is none, or none was found in `max_expansions` expansions.

    A* over pushes: a node is the state after a push, the cost is the number of moves, and the heuristic is `assign_pushes`,
    which never overestimates and prunes every state with a lost box.
    """
    cost_of = {state: 0}
    came_from: dict[SokobanState, tuple[SokobanState, str]] = {}
    frontier = [(assign_pushes(warehouse, state[1]), 0, state)]
    for _ in range(max_expansions):
        if not frontier or frontier[0][0] == inf:
            return None
        _, cost, node = heapq.heappop(frontier)
        if assign_pushes(warehouse, node[1]) == 0:
            return _unwound(came_from, node)
        if cost > cost_of[node]:
            continue
        for moves, following in _list_pushes(warehouse, node):
            total = cost + len(moves)
            estimate = assign_pushes(warehouse, following[1])
            if estimate < inf and total < cost_of.get(following, inf):
                cost_of[following] = total
                came_from[following] = (node, moves)
                heapq.heappush(frontier, (total + estimate, total, following))
    return None


def _list_pushes(warehouse: Warehouse, state: SokobanState) -> Iterator[tuple[str, SokobanState]]:
    """Each state after one more push, with the walk to the box and the push as moves."""
    steps, boxes = warehouse.steps, state[1]
    reached = walks(warehouse, state)
    for box in boxes:
        for number, move in enumerate(MOVES):
            pusher, target = steps[box][_OPPOSITE[number]], steps[box][number]
            if pusher in reached and target != box and target not in boxes:
                yield reached[pusher] + move, (box, move_boxes(boxes, box, target))


def list_pulls(warehouse: Warehouse, state: SokobanState) -> list[SokobanState]:
    """The states from which one push leads to `state`."""
    steps, boxes = warehouse.steps, state[1]
    reached = walks(warehouse, state)
    found = []
    for box in boxes:
        for number in range(len(MOVES)):
            puller = steps[box][number]
            if puller != box and puller in reached:
                there = steps[puller][number]
                if there != puller and there not in boxes:
                    found.append((there, move_boxes(boxes, box, puller)))
    return found


def _unwound(came_from: dict[SokobanState, tuple[SokobanState, str]], node: SokobanState) -> str:
    parts = []
    while node in came_from:
        node, moves = came_from[node]
        parts.append(moves)
    return "".join(reversed(parts))
