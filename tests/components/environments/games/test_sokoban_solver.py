"""The Sokoban solver against breadth-first search over single moves on drawn characters."""

from collections import deque
from math import inf
from random import Random

import pytest

from components.environments.games.sokoban_solver import (
    SokobanState,
    Warehouse,
    assign_pushes,
    list_pulls,
    move_boxes,
    pushes_to_goals,
    solution,
)

STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}


def move_by_hand(warehouse: Warehouse, state: SokobanState, move: str) -> SokobanState:
    """One move by the rules as a person would tell them, on rows and columns."""
    size, (player, boxes) = warehouse.size, state

    def is_open(row: int, column: int) -> bool:
        return 0 <= row < size and 0 <= column < size and warehouse.walls[row * size + column] == "."

    down, right = STEPS[move]
    row, column = player // size + down, player % size + right
    if not is_open(row, column):
        return state
    there = row * size + column
    if there not in boxes:
        return there, boxes
    beyond = (row + down) * size + column + right
    if not is_open(row + down, column + right) or beyond in boxes:
        return state
    return there, tuple(sorted([*(box for box in boxes if box != there), beyond]))


def fewest_moves(warehouse: Warehouse, start: SokobanState) -> int | None:
    distances = {start: 0}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if state[1] == warehouse.goals:
            return distances[state]
        for move in STEPS:
            following = move_by_hand(warehouse, state, move)
            if following not in distances:
                distances[following] = distances[state] + 1
                queue.append(following)
    return None


def random_case(seed: int, num_boxes: int) -> tuple[Warehouse, SokobanState]:
    """Any state at all, solvable or not."""
    rng = Random(seed)
    walls = "".join("#" if rng.random() < 0.15 else "." for _ in range(16))
    free = [cell for cell, mark in enumerate(walls) if mark == "."]
    goals = tuple(sorted(rng.sample(free, num_boxes)))
    player, *boxes = rng.sample(free, num_boxes + 1)
    return Warehouse(walls, 4, goals), (player, tuple(sorted(boxes)))


@pytest.mark.parametrize("num_boxes", [1, 2])
def test_solutions_solve_in_the_fewest_moves_and_none_means_none(num_boxes: int) -> None:
    num_solved = 0
    for seed in range(400):
        warehouse, start = random_case(seed, num_boxes)
        expected, moves = fewest_moves(warehouse, start), solution(warehouse, start)
        assert (None if moves is None else len(moves)) == expected, (warehouse, start)
        if moves is not None:
            state = start
            for move in moves:
                state = move_by_hand(warehouse, state, move)
            assert state[1] == warehouse.goals
            num_solved += 1
    assert 20 <= num_solved < 400


def test_the_estimate_is_zero_exactly_when_solved_and_never_above_the_pushes_needed() -> None:
    for seed in range(150):
        warehouse, start = random_case(seed, 2)
        estimate, moves = assign_pushes(warehouse, start[1]), solution(warehouse, start)
        assert (estimate == 0) == (start[1] == warehouse.goals)
        if moves is not None:
            num_pushes, state = 0, start
            for move in moves:
                following = move_by_hand(warehouse, state, move)
                num_pushes += following[1] != state[1]
                state = following
            assert estimate <= num_pushes


def test_a_box_in_a_corner_without_a_goal_is_lost() -> None:
    warehouse = Warehouse("." * 9, 3, (4,))
    assert pushes_to_goals(warehouse)[0][0] == inf
    assert solution(warehouse, (4, (0,))) is None
    assert solution(warehouse, (4, (1,))) is None


def test_a_search_cut_short_finds_nothing() -> None:
    warehouse = Warehouse("." * 25, 5, (12,))
    assert solution(warehouse, (0, (6,)), 1) is None
    assert solution(warehouse, (0, (6,))) is not None


def test_a_pull_is_a_push_taken_back() -> None:
    for seed in range(60):
        warehouse, state = random_case(seed, 2)
        for before in list_pulls(warehouse, state):
            after = {move_by_hand(warehouse, before, move) for move in STEPS}
            assert any(boxes == state[1] for _, boxes in after)


def test_moved_boxes_stay_in_order() -> None:
    assert move_boxes((3, 7, 9), 3, 8) == (7, 8, 9)
