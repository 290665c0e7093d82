"""Distances against Floyd and Warshall's algorithm."""

from hypothesis import assume, given
from hypothesis import strategies as st

from components.environments.games.grid import UNREACHABLE, walk_table


@st.composite
def boards(draw: st.DrawFn) -> tuple[str, int, int]:
    size = draw(st.integers(2, 5))
    walls = "".join(draw(st.lists(st.sampled_from("..#"), min_size=size * size, max_size=size * size)))
    free = [cell for cell, mark in enumerate(walls) if mark == "."]
    assume(free)
    return walls, size, draw(st.sampled_from(free))


def all_pairs(walls: str, size: int) -> list[list[float]]:
    num_cells = size * size
    free = [mark == "." for mark in walls]
    apart = [[float("inf")] * num_cells for _ in range(num_cells)]
    for a in range(num_cells):
        for b in range(num_cells):
            adjacent = abs(a // size - b // size) + abs(a % size - b % size) == 1
            if free[a] and free[b] and (a == b or adjacent):
                apart[a][b] = float(a != b)
    for k in range(num_cells):
        for a in range(num_cells):
            for b in range(num_cells):
                apart[a][b] = min(apart[a][b], apart[a][k] + apart[k][b])
    return apart


@given(boards())
def test_distances_are_the_shortest_and_each_listed_move_comes_one_nearer(board: tuple[str, int, int]) -> None:
    walls, size, goal = board
    table, apart = walk_table(walls, size, goal), all_pairs(walls, size)
    for cell, distance in enumerate(table.distances):
        expected = apart[cell][goal]
        assert distance == (UNREACHABLE if expected == float("inf") else expected)
        nearer = {move for move in range(4) if distance > 0 and apart[table.steps[cell][move]][goal] == distance - 1}
        assert set(table.shortest[cell]) == nearer
        assert bool(nearer) == (distance > 0)
