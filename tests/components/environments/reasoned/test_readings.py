"""Answers that reason first are read as a person reads them: a table for each environment."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from components.environments.base import Step, Tools
from components.environments.code.grammar import cases_in
from components.environments.code.programs import program_in
from components.environments.environment import Environment
from components.environments.family import Family
from components.environments.games.python_tool import execution_of
from components.environments.math.grammar import parse_answer, parse_program
from components.environments.math.normalization import plain
from components.environments.math.numbers import number
from components.environments.play import Playthrough, Referee
from components.environments.registry import family, family_options
from components.environments.rules import TurnRules
from components.environments.search.grammar import parse_reasoner, parse_searcher
from components.environments.stateful.tools import parse_calls
from components.errors import MalformedAction
from tests.components.environments.reasoned.guessing import Guess, read
from tests.components.environments.reasoned.row import Row
from tests.components.environments.reasoned.tables import codes, grids, maths, own, programs, searches, worlds
from tests.components.environments.social.games import ALONE
from tests.components.environments.test_parser_bounds import AnyTools

Meaning = Callable[[Any, str, str], object]
"""(state, role, compact answer) -> what the environment understands by it. Raises MalformedAction."""


def moves(state: Any, role: str, answer: str) -> object:
    return tuple(state.game.parse(answer))


def steps_or_calls(state: Any, role: str, answer: str) -> object:
    if role == "planner":
        return state.world.parse_plan(answer)
    return parse_calls(answer, max_calls=state.world.max_calls, max_characters=1000)


def program_or_moves(state: Any, role: str, answer: str) -> object:
    return execution_of(answer, {}, max_characters=1000) if role == "tool_agent" else moves(state, role, answer)


def program_or_value(state: Any, role: str, answer: str) -> object:
    if role == "tool_agent":
        return parse_program(answer, max_characters=400)
    return parse_answer(answer, max_characters=100, numbers_only=False).replace("\\boxed{", "").rstrip("}")


def program_or_number(state: Any, role: str, answer: str) -> object:
    if role == "tool_agent":
        return parse_program(answer, max_characters=400)
    return number(plain(parse_answer(answer, max_characters=100, numbers_only=True)))


def lines(state: Any, role: str, answer: str) -> object:
    return (parse_searcher if role == "searcher" else parse_reasoner)(answer, state.sizes)


def program_or_tests(state: Any, role: str, answer: str) -> object:
    return cases_in(answer, state.problem) if role == "tester" else program_in(answer, max_characters=4000)


def whole_number(state: Any, role: str, answer: str) -> object:
    return read(answer)


TABLES: Mapping[str, tuple[Mapping[str, Any], Meaning, Sequence[Row]]] = {
    "plan_path": ({}, moves, grids.PLAN_PATH),
    "sokoban": ({}, moves, grids.SOKOBAN),
    "sudoku": ({}, moves, codes.SUDOKU),
    "blocksworld": ({}, moves, codes.BLOCKSWORLD),
    "eight_queens": ({}, moves, codes.EIGHT_QUEENS),
    "math": ({"prose": True}, program_or_value, maths.MATH),
    "math ": ({}, program_or_number, maths.MATH_NUMBERS),
    "search": ({"level": 1}, lines, searches.SEARCH),
    "code": ({"kinds": ["stdin"]}, program_or_tests, programs.CODE),
    "own": ({}, whole_number, own.OWN),
    "sokoban ": ({"tool": "python"}, program_or_moves, programs.PUZZLE),
    "shop": ({}, steps_or_calls, worlds.SHOP),
    "calendar": ({}, steps_or_calls, worlds.CALENDAR),
    "file_tree": ({}, steps_or_calls, worlds.FILE_TREE),
}


def build(name: str, options: Mapping[str, Any], answers: Any) -> Playthrough:
    if name == "own":
        return build_own(Guess(), answers)
    chosen = family(name.strip(), answers)
    return chosen.build(
        chosen.problem(family_options(name.strip(), options), split="train", index=0, seed=1), AnyTools()
    )


def build_own(environment: Environment, answer_format: Any = "free") -> Playthrough:
    chosen = Family("own", environment, answer_format)
    return chosen.build(chosen.problem(chosen.options_type(), split="train", index=0, seed=1))


class Listening(TurnRules):
    """Rules that write down what reaches a step, and refuse it."""

    def __init__(self, rules: TurnRules) -> None:
        super().__init__(rules.name, rules.environment, rules.answer_format, is_custom=rules.is_custom)
        self.told: list[str] = []

    def step(self, state: Any, agent: str, answer: str, tools: Tools) -> Step:
        self.told.append(answer)
        raise MalformedAction("only listening")


def heard(env: Playthrough, role: str, text: str) -> list[str]:
    """What of an answer reaches a step: itself or its end, or nothing."""
    rules = Listening(env.referee.rules)
    Referee(rules, env.referee.tools).act(env.position, role, text)
    return rules.told


def understood(env: Playthrough, role: str, text: str, meaning: Meaning) -> object:
    """What `env` understands by an answer, None if it is malformed."""
    told = heard(env, role, text)
    try:
        return meaning(env.position.state, role, told[0]) if told else None
    except MalformedAction:
        return None


CASES = [
    pytest.param(name, number, id=f"{name}-{number}-{row.role}")
    for name, (_, _, rows) in TABLES.items()
    for number, row in enumerate(rows)
]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_text_is_read_as_a_person_reads_it(name: str, number: int) -> None:
    options, meaning, rows = TABLES[name]
    row = rows[number]
    env = build(name, options, "free")
    wanted = None if row.reading is None else meaning(env.position.state, row.role, row.reading)
    assert understood(env, row.role, row.text, meaning) == wanted


def test_every_environment_has_twenty_texts() -> None:
    assert {name for name in TABLES if len(TABLES[name][2]) >= 20} >= {*ALONE, "own"}
