"""sokoban: pushing, losing a box, and what the agents read."""

from random import Random

import pytest

from components.environments.games.sokoban import SokobanOptions
from components.environments.play import Playthrough
from components.environments.registry import family
from components.schema import Problem

TOOL, PLAN = "tool_agent", "plan_agent"
FAMILY = family("sokoban")
ROOM = {
    "rows": ["....", "....", "..#.", "...."],
    "size": 4,
    "goals": [[1, 3], [3, 1]],
    "player": [0, 0],
    "boxes": [[1, 1], [2, 1]],
    "max_moves": 12,
}


def room() -> Playthrough:
    return FAMILY.build(Problem(problem_id="sokoban-room", environment="sokoban", payload=ROOM))


def test_the_agents_read_the_room_the_proposal_and_where_everything_would_be() -> None:
    env = room()
    assert env.observe(TOOL).state == "TA...\n.B.G\n.B#.\n.G..\n:"
    env.apply(TOOL, "DR")
    assert env.observe(PLAN).state == "PA...\n.B.G\n.B#.\n.G..\n:DR----------|111221n>"


def test_pushing_moves_box_and_player() -> None:
    env = room()
    assert env.apply(PLAN, "DRR").team["progress"] == pytest.approx(2 / 3)
    assert env.observe(TOOL).state == "T....\n..A*\n.B#.\n.G..\n:"
    assert env.apply(PLAN, "LD").done
    assert env.success
    assert env.observe(TOOL).state == "T....\n...*\n.A#.\n.*..\n:"


def test_walls_edges_and_a_second_box_stop_a_push() -> None:
    env = room()
    for moves in ("RD", "DDDR", "RRR"):
        env = room()
        boxes = env.position.state.state[1]
        outcome = env.apply(PLAN, moves)
        if moves == "RD":
            assert outcome.local["clean"] == 0.0
            assert env.position.state.state == (1, boxes)
    env = room()
    outcome = env.apply(PLAN, "DDR")
    assert outcome.local["clean"] == 0.0
    assert env.position.state.state == (8, (5, 9))


def test_the_player_on_a_goal_is_shown() -> None:
    env = room()
    env.apply(PLAN, "DDDR")
    assert "+" in env.observe(TOOL).state


def test_one_box_on_its_goal_is_not_success() -> None:
    env = room()
    outcome = env.apply(PLAN, "DRR")
    assert not outcome.solves
    assert not env.done


def test_losing_a_box_is_the_worst_progress_and_leaves_the_expert_without_a_move() -> None:
    env = room()
    outcome = env.apply(PLAN, "RRDL")
    assert outcome.team == {"solved": 0.0, "progress": -1.0}
    assert not env.done
    assert FAMILY.expert_action(env.position, PLAN) == ""
    assert env.apply(PLAN, "R").team["progress"] == 0.0


@pytest.mark.parametrize(
    "options",
    [SokobanOptions(), SokobanOptions(size=5, num_boxes=2), SokobanOptions(size=9, num_boxes=3, wall_density=0.05)],
)
def test_starts_are_unsolved_and_the_shortest_solution_is_within_the_wanted_distances(options: SokobanOptions) -> None:
    for index in range(30):
        problem = FAMILY.problem(options, split="train", index=index, seed=0)
        env = FAMILY.build(problem)
        assert options.min_distance <= len(FAMILY.expert_action(env.position, PLAN)) <= options.max_distance
        assert len(problem.payload["boxes"]) == len(problem.payload["goals"]) == options.num_boxes
        cells = [tuple(place) for place in [*problem.payload["boxes"], problem.payload["player"]]]
        assert len({*cells}) == options.num_boxes + 1
        assert all(problem.payload["rows"][row][column] == "." for row, column in cells)


def test_a_scramble_moves_boxes_and_player() -> None:
    env, rng = room(), Random(0)
    states = set()
    for _ in range(60):
        env.position = FAMILY.scramble(env.position, rng, env.referee.tools)
        states.add(env.position.state.state)
    assert len({player for player, _ in states}) > 5
    assert len({boxes for _, boxes in states}) > 1
