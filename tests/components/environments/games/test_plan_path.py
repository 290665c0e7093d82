"""plan_path: walking, the strict goal, and what the agents read."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.games.plan_path import PlanPathOptions
from components.environments.play import Playthrough
from components.environments.registry import family
from components.schema import Problem

TOOL, PLAN = "tool_agent", "plan_agent"
FAMILY = family("plan_path")
CORRIDOR = {
    "rows": ["..#", "#..", "..."],
    "size": 3,
    "goal": [2, 2],
    "start": [0, 0],
    "max_moves": 6,
}
"""A at the top left, G at the bottom right: shortest solutions RDRD and RDDR."""


def corridor() -> Playthrough:
    return FAMILY.build(Problem(problem_id="plan_path-corridor", environment="plan_path", payload=CORRIDOR))


def walk(payload: dict[str, object], moves: str) -> tuple[list[int], int]:
    """Where a list ends and how often it bumps, on rows and columns."""
    rows, (row, column), num_bumps = payload["rows"], payload["start"], 0
    for move in moves:
        there = {"U": (row - 1, column), "D": (row + 1, column), "L": (row, column - 1), "R": (row, column + 1)}[move]
        if 0 <= there[0] < len(rows) and 0 <= there[1] < len(rows) and rows[there[0]][there[1]] == ".":
            row, column = there
        else:
            num_bumps += 1
    return [row, column], num_bumps


def test_the_agents_read_the_board_the_proposal_and_the_report() -> None:
    env = corridor()
    assert env.observe(TOOL).state == "TA.#\n#..\n..G\n:"
    assert env.observe(PLAN).state == "PA.#\n#..\n..G\n:------|00->"
    env.apply(TOOL, "R, D")
    assert env.observe(PLAN).state == "PA.#\n#..\n..G\n:RD----|11n>"
    env.apply(TOOL, "[RDRD]")
    assert env.observe(PLAN).state == "PA.#\n#..\n..G\n:RDRD--|22y>"
    env.apply(TOOL, "right")
    assert env.observe(PLAN).state == "PA.#\n#..\n..G\n:------|00!>"


def test_the_next_turn_shows_the_current_position_and_no_old_proposal() -> None:
    env = corridor()
    env.apply(TOOL, "RD")
    outcome = env.apply(PLAN, "RD")
    assert outcome.team == {"solved": 0.0, "progress": 0.5}
    assert env.observe(TOOL).state == "T..#\n#A.\n..G\n:"
    assert env.observe(PLAN).state == "P..#\n#A.\n..G\n:------|11->"
    assert env.render(color=False) == ". . #\n# A .\n. . G"


def test_walking_through_the_goal_is_not_success() -> None:
    env = corridor()
    outcome = env.apply(PLAN, "RDRDU")
    assert not outcome.solves
    assert not env.success
    assert env.observe(TOOL).state == "T..#\n#.A\n..G\n:"
    assert env.apply(PLAN, "D").done
    assert env.success


def test_a_bump_stays_and_costs_the_clean_mark_alone() -> None:
    outcome = corridor().apply(PLAN, "URDRD")
    assert outcome.solves
    assert outcome.local == {"clean": 0.0, "malformed": 0.0}


@pytest.mark.parametrize("moves", ["", "RL"])
def test_a_list_that_leads_nowhere_earns_nothing(moves: str) -> None:
    outcome = corridor().apply(PLAN, moves)
    assert outcome.error is None
    assert outcome.team == {"solved": 0.0, "progress": 0.0}
    assert outcome.local == {"clean": 0.0, "malformed": 0.0}


def test_a_list_that_leads_closer_without_a_bump_is_clean() -> None:
    outcome = corridor().apply(PLAN, "R")
    assert outcome.team["progress"] > 0
    assert outcome.local == {"clean": 1.0, "malformed": 0.0}


def test_a_list_over_the_limit_is_malformed_even_if_it_would_solve() -> None:
    env = corridor()
    outcome = env.apply(PLAN, "RDRDUUD")
    assert outcome.error == "7 moves; at most 6 are allowed"
    assert env.observe(TOOL).state == "TA.#\n#..\n..G\n:"


@settings(deadline=None)
@given(index=st.integers(0, 30), moves=st.text(alphabet="UDLR", max_size=10))
def test_a_list_leads_where_walking_by_hand_leads(index: int, moves: str) -> None:
    problem = FAMILY.problem(PlanPathOptions(), split="train", index=index, seed=0)
    end, num_bumps = walk(problem.payload, moves)
    env = FAMILY.build(problem)
    outcome = env.apply(PLAN, moves)
    assert env.position.state.state == end[0] * 5 + end[1]
    assert outcome.solves == outcome.done == env.success == (end == problem.payload["goal"])
    assert outcome.local["clean"] == (num_bumps == 0 and outcome.team["progress"] > 0)


@pytest.mark.parametrize("options", [PlanPathOptions(), PlanPathOptions(size=9, min_distance=6, max_distance=7)])
def test_the_shortest_solution_is_within_the_wanted_distances(options: PlanPathOptions) -> None:
    for index in range(100):
        env = FAMILY.build(FAMILY.problem(options, split="test", index=index, seed=0))
        length = len(FAMILY.expert_action(env.position, PLAN))
        assert options.min_distance <= length <= options.max_distance


def test_progress_counts_shortest_distances() -> None:
    env = corridor()
    assert env.apply(PLAN, "RDDL").team["progress"] == pytest.approx(0.5)
    assert env.apply(PLAN, "RUUL").team["progress"] == -1.0


def test_noise_is_mended_from_where_the_list_really_is() -> None:
    rng = Random(0)
    lists = [FAMILY.noisy_expert_action(corridor().position, PLAN, noise=0.3, rng=rng) for _ in range(300)]
    ends = [walk(CORRIDOR, moves)[0] for moves in lists]
    assert all(end == [2, 2] or len(moves) == 6 for end, moves in zip(ends, lists, strict=True))
    assert any(len(moves) > 4 and end == [2, 2] for end, moves in zip(ends, lists, strict=True))
    assert {*"".join(lists)} == {*"UDLR"}


def test_ten_rows_or_fewer_need_one_digit_a_coordinate_and_more_need_two() -> None:
    for size, width in ((10, 2), (11, 4)):
        options = PlanPathOptions(size=size)
        env = FAMILY.build(FAMILY.problem(options, split="train", index=0, seed=0))
        assert len(env.observe(PLAN).state) == 1 + size * (size + 1) + 1 + 10 + 1 + width + 2
