"""Mazes: always a way, the shortest one by another algorithm, joint moves and the measure of a path."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.social.rules.maze import (
    LAYOUTS,
    MOVES,
    Maze,
    MazeGame,
    MazeState,
    distances,
    draw_maze,
    drawing,
    list_known_cells,
    maze_step,
    success_by_path_length,
)
from components.errors import ConfigurationError

OPEN = Maze(width=3, height=2, walls=frozenset())


def play_steps(game: MazeGame, *joint_actions: str) -> list[Any]:
    """The outcomes of joint actions, written as words for each member."""
    state, outcomes = game.start(), []
    for actions in joint_actions:
        outcomes.append(maze_step(game, state, actions.split()))
        state = outcomes[-1].state
    return outcomes


def test_the_fixed_mazes_end_in_their_corner_by_ways_without_detour() -> None:
    assert {name: maze.shortest for name, maze in LAYOUTS.items()} == {"simple": 8, "medium": 12, "complex": 18}
    assert LAYOUTS["simple"].goal == (4, 4)


@given(st.integers(2, 8), st.integers(2, 8), st.floats(0, 0.99), st.integers(0, 99))
def test_drawn_mazes_have_a_way_whose_length_is_the_power_of_the_adjacency(
    w: int, h: int, part: float, seed: int
) -> None:
    maze = draw_maze(w, h, wall_fraction=part, seed=seed)
    assert maze == draw_maze(w, h, wall_fraction=part, seed=seed)
    assert len(maze.walls) <= part * w * h
    cells = [(x, y) for x in range(w) for y in range(h) if maze.is_free((x, y))]
    near = np.array([[abs(a[0] - b[0]) + abs(a[1] - b[1]) <= 1 for b in cells] for a in cells])
    reached, steps = np.array([cell == maze.start for cell in cells]), 0
    while not reached[cells.index(maze.goal)]:
        reached, steps = near @ reached, steps + 1
    assert maze.shortest == steps
    assert set(distances(w, h, maze.walls)) <= set(cells)


def test_seeds_draw_different_mazes() -> None:
    assert len({draw_maze(8, 8, wall_fraction=0.3, seed=seed) for seed in range(10)}) == 10


def test_rewards_by_hand() -> None:
    first, wall, *_, last = play_steps(MazeGame(maze=OPEN, num_steps=4), "right", "up", "right", "down")
    assert first.rewards_N == pytest.approx((-0.1 - 0.01 * 2,))
    assert wall.state.paths_N[0][-1] == (1, 0), "a move out of the grid stays"
    assert (last.rewards_N, last.done, last.arrived_N) == ((10.0,), True, (True,))
    assert play_steps(MazeGame(maze=OPEN, num_steps=3), "stay", "stay", "stay")[-1].rewards_N == (-1.0,)


def test_the_first_to_arrive_share_the_race_and_play_no_more() -> None:
    game = MazeGame(maze=OPEN, num_members=3, race_bonus=4.0)
    *_, before, arrival, after = play_steps(
        game, "right right stay", "right right stay", "down down right", "up left right"
    )
    assert arrival.rewards_N[:2] == (12.0, 12.0)
    assert arrival.done is before.done is False
    assert after.rewards_N[:2] == (0.0, 0.0)
    assert after.state.paths_N[0] == arrival.state.paths_N[0], "members at the goal stay"
    assert success_by_path_length(game, after.state) == (1.0, 1.0, 0.0)
    late = maze_step(game, after.state, ["stay", "stay", "down"])
    assert (late.rewards_N, late.done) == ((0.0, 0.0, 10.0), True)
    assert success_by_path_length(game, late.state)[2] == pytest.approx(3 / 5)


def test_collisions_close_cells_that_are_held_or_taken() -> None:
    game = MazeGame(maze=Maze(width=4, height=2, walls=frozenset()), num_members=2, collisions=True)
    assert play_steps(game, "right right")[0].state.paths_N == (((0, 0), (1, 0)), ((0, 0), (0, 0)))
    follow = play_steps(game, "right stay", "right right")[-1]
    assert [path[-1] for path in follow.state.paths_N] == [(2, 0), (0, 0)], "the cell was held before the step"
    together = MazeGame(maze=game.maze, num_members=2)
    assert [path[-1] for path in play_steps(together, "right right")[0].state.paths_N] == [(1, 0), (1, 0)]


@given(
    st.lists(st.lists(st.sampled_from(sorted(MOVES)), min_size=3, max_size=3), max_size=30),
    st.booleans(),
    st.integers(0, 20),
)
def test_nobody_walks_through_walls_or_others(actions: list[list[str]], collisions: bool, seed: int) -> None:
    maze = draw_maze(5, 4, wall_fraction=0.3, seed=seed)
    game = MazeGame(maze=maze, num_members=3, collisions=collisions)
    state = game.start()
    for joint in actions:
        outcome = maze_step(game, state, joint)
        state = outcome.state
        places = [path[-1] for path in state.paths_N]
        assert all(maze.is_free(place) for place in places)
        inside = [place for place in places if place not in (maze.start, maze.goal)]
        assert not collisions or len(inside) == len(set(inside))
        assert all(0 <= each <= 1 for each in success_by_path_length(game, state))
        if outcome.done:
            break


def test_a_member_knows_what_it_passed_and_a_shared_map_what_all_did() -> None:
    maze = LAYOUTS["simple"]
    one, two = [(0, 0)], [(4, 4)]
    assert list_known_cells(maze, [one])[-1, 0] is False
    assert list_known_cells(maze, [[(1, 1)]])[2, 1] is False
    assert set(list_known_cells(maze, [[(1, 3)]])) == {(x, y) for x in (0, 1, 2) for y in (2, 3, 4)}
    assert list_known_cells(maze, [one, two]) == list_known_cells(maze, [one]) | list_known_cells(maze, [two])
    state = MazeState(paths_N=(((0, 0), (1, 0)),), num_steps=1)
    assert drawing(MazeGame(maze=maze), state) == ".A...\n..#..\n..#..\n..#..\n....G"


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Maze(width=2, height=2, walls=frozenset({(0, 1), (1, 0)})), "no way leads"),
        (lambda: Maze(width=2, height=2, walls=frozenset({(0, 0)})), "no way leads"),
        (lambda: Maze(width=2, height=2, walls=frozenset({(5, 0)})), "outside of 2 x 2"),
        (lambda: Maze(width=1, height=2, walls=frozenset()), "width 1"),
        (lambda: draw_maze(3, 3, wall_fraction=1.0, seed=0), "wall_fraction 1"),
        (lambda: MazeGame(maze=OPEN, num_steps=2), "at least the 3 steps"),
        (lambda: play_steps(MazeGame(maze=OPEN), "jump"), "jump"),
        (lambda: play_steps(MazeGame(maze=OPEN), "right right"), "of 1 members"),
        (lambda: play_steps(MazeGame(maze=OPEN), "right", "right", "down", "stay"), "the episode has ended"),
        (lambda: play_steps(MazeGame(maze=OPEN, num_steps=3), *["stay"] * 4), "the episode has ended"),
    ],
)
def test_what_is_no_maze_or_move_is_refused(call: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        call()
