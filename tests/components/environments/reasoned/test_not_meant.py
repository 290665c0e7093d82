"""A text that holds the right answer and says something else is refused, or read as what it says: never as the right answer."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from components.environments.registry import family, family_options
from tests.components.environments.reasoned.guessing import Guess
from tests.components.environments.reasoned.tables import not_meant
from tests.components.environments.reasoned.test_readings import TABLES, build, build_own, understood
from tests.components.environments.test_parser_bounds import AnyTools

GAMES = ("plan_path", "sokoban", "sudoku", "eight_queens", "blocksworld")
WORLDS = ("shop", "calendar", "file_tree")


class Seat(NamedTuple):
    """An agent about to act: whether a text is taken for the right answer, and what stands for RIGHT, WRONG and MORE."""

    is_right: Callable[[str], bool]
    right: str
    wrong: str
    more: str = ""

    def fill(self, text: str) -> str:
        return text.replace("RIGHT", self.right).replace("WRONG", self.wrong).replace("MORE", self.more)


def solving(env: Any, role: str) -> Callable[[str], bool]:
    before = env.position

    def is_right(text: str) -> bool:
        env.position = before
        return bool(env.apply(role, text).solves)

    return is_right


def reading(name: str, role: str, right: str) -> Callable[[str], bool]:
    """Whether a text is understood as `right`, where nothing is solved by one answer."""
    options, meaning, _ = TABLES[name]
    wanted = understood(build(name, options, "strict"), role, right, meaning)
    assert wanted is not None
    return lambda text: understood(build(name, options, "free"), role, text, meaning) == wanted


def game(name: str, answers: Any) -> Seat:
    """A problem whose solution has several moves, and for those with directions not all four."""
    chosen = family(name, answers)
    for index in range(400):
        env: Any = chosen.build(chosen.problem(family_options(name, {}), split="train", index=index, seed=0))
        moves = env.position.state.game.parse(chosen.expert_action(env.position, "plan_agent"))
        others = [move for move in "UDLR" if move not in moves] if name in GAMES[:2] else [*moves[:1]]
        if len(moves) >= 4 and others:
            return Seat(solving(env, "plan_agent"), ", ".join(moves), ", ".join(moves[:1]), others[0])
    raise AssertionError(name)


def world(name: str, answers: Any) -> Seat:
    """A problem that takes several calls, of which the first alone is wrong."""
    chosen = family(name, answers)
    for index in range(400):
        env = chosen.build(chosen.problem(family_options(name, {}), split="train", index=index, seed=0))
        env.apply("planner", chosen.expert_action(env.position, "planner"))
        calls = json.loads(chosen.expert_action(env.position, "tool_agent"))
        if len(calls) > 1:
            return Seat(solving(env, "tool_agent"), json.dumps(calls), json.dumps(calls[:1]))
    raise AssertionError(name)


def sums(answers: Any, *, prose: bool) -> Seat:
    chosen = family("math", answers)
    options = family_options("math", {"dataset": "procedural", "prose": prose})
    problem = chosen.problem(options, split="train", index=0, seed=0)
    problem = dataclasses.replace(problem, payload={**problem.payload, "answer": "42"})
    return Seat(solving(chosen.build(problem, AnyTools()), "reasoner"), "42", "99")


def question(answers: Any) -> Seat:
    chosen = family("search", answers)
    options = family_options("search", {"dataset": "procedural", "level": 0})
    problem = chosen.problem(options, split="test", index=0, seed=0)
    return Seat(solving(chosen.build(problem, AnyTools()), "reasoner"), problem.payload["answers"][0], "Zork")


def program(name: str, role: str) -> Seat:
    return Seat(reading(name, role, "print(2 * int(input()))"), "print(2 * int(input()))", "print(int(input()))")


def guess() -> Seat:
    env = build_own(Guess())
    return Seat(solving(env, "guesser"), env.observe("guesser").state, "1")


UNFENCED_CALLS = [text for text in not_meant.CALLS if "```" not in text]
"""Compact answers are read from their last block, whatever stands before it."""
WAYS = ("free", "strict")
NUMBERS = (*not_meant.VALUES, *not_meant.PERCENTS)
SEATS: Mapping[str, tuple[Sequence[str], str, Callable[[], Seat]]] = {
    **{f"{name} {way}": (not_meant.MOVES, "[RIGHT]", partial(game, name, way)) for name in GAMES for way in WAYS},
    **{f"{name} reasoned": (not_meant.CALLS, "RIGHT", partial(world, name, "free")) for name in WORLDS},
    **{f"{name} compact": (UNFENCED_CALLS, "RIGHT", partial(world, name, "strict")) for name in WORLDS},
    **{f"math {way}": (not_meant.VALUES, "\\boxed{RIGHT}", partial(sums, way, prose=True)) for way in WAYS},
    **{f"numbers {way}": (NUMBERS, "\\boxed{RIGHT}", partial(sums, way, prose=False)) for way in WAYS},
    "search": (not_meant.NAMES, "= RIGHT", partial(question, "free")),
    "plan": (
        not_meant.PLANS,
        "RIGHT",
        lambda: Seat(reading("shop", "planner", "buy 1 pear;pay"), "buy 1 pear;pay", "pay"),
    ),
    "program": (not_meant.PROGRAMS, "RIGHT", partial(program, "code", "coder")),
    "puzzle program": (not_meant.PROGRAMS, "RIGHT", partial(program, "sokoban ", "tool_agent")),
    "math program": (not_meant.PROGRAMS, "RIGHT", partial(program, "math", "tool_agent")),
    "tests": (not_meant.TESTS, "RIGHT", lambda: Seat(reading("code", "tester", "3 => 6"), "3 => 6", "3 => 5")),
    "own": (not_meant.GUESSES, "Answer: RIGHT", guess),
}


@pytest.mark.parametrize("name", SEATS)
def test_an_answer_that_is_not_meant_is_not_read_as_the_right_one(name: str) -> None:
    texts, plain, made = SEATS[name]
    seat = made()
    assert seat.is_right(seat.fill(plain))
    assert not seat.is_right(seat.fill(plain.replace("RIGHT", "WRONG")))
    assert [text for text in texts if seat.is_right(seat.fill(text))] == []
