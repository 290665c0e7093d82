"""sudoku: clues that stand, placements that may clash, and what the agents read."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.games.sudoku import SudokuOptions, numbers_of
from components.environments.play import Playthrough
from components.environments.registry import family
from components.schema import Problem

TOOL, PLAN = "tool_agent", "plan_agent"
FAMILY = family("sudoku")
GRID = {"size": 4, "rows": ["12..", "3412", "2143", "43.1"], "max_placements": 4}
"""Row 1 lacks 3 and 4, row 4 lacks 2."""


def grid() -> Playthrough:
    return FAMILY.build(Problem(problem_id="sudoku-grid", environment="sudoku", payload=GRID))


def test_the_agents_read_the_grid_the_proposal_the_blanks_left_and_the_clashes() -> None:
    env = grid()
    assert env.observe(TOOL).state == "T12..\n3412\n2143\n43.1\n:"
    env.apply(TOOL, "133 144")
    assert env.observe(PLAN).state == "P12..\n3412\n2143\n43.1\n:133144------|0100n>"
    env.apply(TOOL, "[131]")
    assert env.observe(PLAN).state == "P12..\n3412\n2143\n43.1\n:131---------|0203n>"
    env.apply(TOOL, "133, 144, 432")
    assert env.observe(PLAN).state == "P12..\n3412\n2143\n43.1\n:133144432---|0000y>"


def test_own_numbers_are_shown_as_letters_and_may_be_replaced() -> None:
    env = grid()
    assert env.apply(PLAN, "134").local == {"clean": 0.0, "malformed": 0.0}
    assert env.observe(TOOL).state == "T12d.\n3412\n2143\n43.1\n:"
    assert env.render(color=False) == "1 2 | 4'.\n3 4 | 1 2\n----+-----\n2 1 | 4 3\n4 3 | . 1"
    assert env.apply(PLAN, "133 144 432").done
    assert env.observe(TOOL).state == "T12cd\n3412\n2143\n43b1\n:"


@pytest.mark.parametrize("action", ["112", "111", "133 144 432 112", "112 133 144 432"])
def test_naming_a_clue_refuses_the_whole_list(action: str) -> None:
    env = grid()
    outcome = env.apply(PLAN, action)
    assert outcome.error is not None
    assert "is a clue" in outcome.error
    assert env.observe(TOOL).state == "T12..\n3412\n2143\n43.1\n:"


def test_progress_is_the_share_of_missing_numbers_that_came_right() -> None:
    env = grid()
    assert env.apply(PLAN, "133").team["progress"] == pytest.approx(1 / 3)
    assert env.apply(PLAN, "134").team["progress"] == pytest.approx(-1 / 2)
    assert env.apply(PLAN, "131").team["progress"] == 0.0


def test_a_full_grid_with_a_clash_is_not_success() -> None:
    env = grid()
    outcome = env.apply(PLAN, "134 143 432")
    assert not outcome.solves
    assert not env.done


@settings(max_examples=200, deadline=None)
@given(
    index=st.integers(0, 5),
    actions=st.lists(
        st.lists(st.text(alphabet="1234", min_size=3, max_size=3), max_size=5).map(" ".join) | st.text(), max_size=4
    ),
)
def test_clues_stand_whatever_is_written(index: int, actions: list[str]) -> None:
    problem = FAMILY.problem(SudokuOptions(), split="train", index=index, seed=0)
    env = FAMILY.build(problem)
    clues = "".join(problem.payload["rows"])
    for action in actions:
        env.apply(TOOL, action)
        env.apply(PLAN, action)
        cells = env.observe(TOOL).state[1:-1].replace("\n", "")
        assert len(cells) == 16
        assert all(cell == clue for cell, clue in zip(cells, clues, strict=True) if clue != ".")
        assert all(cell in ".abcd" for cell, clue in zip(cells, clues, strict=True) if clue == ".")


@pytest.mark.parametrize("size", [4, 6, 9, 16])
def test_solved_means_every_row_column_and_box_is_complete(size: int) -> None:
    height, width = {4: (2, 2), 6: (2, 3), 9: (3, 3), 16: (4, 4)}[size]
    env = FAMILY.build(FAMILY.problem(SudokuOptions(size=size), split="test", index=0, seed=0))
    env.apply(PLAN, FAMILY.expert_action(env.position, PLAN))
    assert env.success
    numbers = numbers_of(env.position.state.state)
    wanted = {*range(1, size + 1)}
    for line in range(size):
        assert {*numbers[line * size : (line + 1) * size]} == wanted
        assert {*numbers[line::size]} == wanted
        top, left = line // (size // width) * height, line % (size // width) * width
        box = {numbers[(top + down) * size + left + right] for down in range(height) for right in range(width)}
        assert box == wanted


def test_a_grid_with_two_solutions_is_refused() -> None:
    payload = {"size": 4, "rows": ["....", "....", "....", "...1"], "max_placements": 4}
    with pytest.raises(AssertionError, match="not exactly one solution"):
        FAMILY.build(Problem(problem_id="sudoku-open", environment="sudoku", payload=payload))


@pytest.mark.parametrize("size", [4, 6, 9, 16])
def test_the_largest_number_of_blanks_still_gives_puzzles(size: int) -> None:
    most = {4: 11, 6: 24, 9: 52, 16: 120}[size]
    problem = FAMILY.problem(SudokuOptions(size=size, num_blanks=most), split="train", index=0, seed=0)
    assert "".join(problem.payload["rows"]).count(".") == most
    assert problem.payload["max_placements"] == most


def test_a_scramble_leaves_a_blank_and_sometimes_a_mistake_to_mend() -> None:
    env, rng = grid(), Random(0)
    solution = "12cd34122143" + "43b1"
    mistakes = 0
    for _ in range(200):
        env.position = FAMILY.scramble(env.position, rng, env.referee.tools)
        assert "." in env.position.state.state
        mistakes += any(
            mark not in (".", right) for mark, right in zip(env.position.state.state, solution, strict=True)
        )
    assert 0 < mistakes < 100
