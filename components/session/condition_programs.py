"""Conditions of subgoals in Python, run in the sandbox: all of a step at once, and each alone where that fails."""

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from components.bounded_json import bounded_json
from components.errors import ConfigurationError, SandboxUnavailable
from components.escaping import printable
from components.sandbox.base import Sandbox
from components.schema import Limits

if TYPE_CHECKING:
    from components.hybrid.condition_programs import Program, ProgramRunner, ProgramsHeld
    from components.hybrid.game_facts import Booleans, Facts
    from components.hybrid.subgoals import Lesson, LessonReader

_log = logging.getLogger("troupe.sandbox")
_LIMITS = Limits(cpu_seconds=2.0, output_kib=1024)
_MOST_STATES = 1 << 15
"""Of one program in the box: its input stays far below what a box takes."""
_LONGEST_FAILURE = 200
"""Characters that are told of how a program failed."""
_MAIN = r"""
import ast, builtins, json, sys

given = json.load(sys.stdin)
names, columns = list(given["facts"]), list(given["facts"].values())
states = list(zip(*columns)) if columns else [()] * given["num_states"]
arguments = ast.arguments(posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[])
scope = {"__builtins__": {name: getattr(builtins, name) for name in given["builtins"]}}
answers = []
for text in given["programs"]:
    body = ast.Lambda(args=arguments, body=ast.parse(text, mode="eval").body)
    holds = eval(compile(ast.fix_missing_locations(ast.Expression(body)), "condition", "eval"), scope)
    bits, failures, failure = [], 0, ""
    for state in states:
        try:
            bits.append("1" if holds(*state) else "0")
        except Exception as error:
            bits.append("0")
            failures, failure = failures + 1, f"{type(error).__name__}: {error}"[:200]
    answers.append(["%x" % int("1" + "".join(bits), 2), failure if failures == len(states) else ""])
json.dump(answers, sys.stdout)
"""
"""Reads facts and programs, writes the bits of each program after a leading 1, and how it failed in all states."""


def program_runner(sandbox: Sandbox) -> "ProgramRunner":
    """Runs programs in this sandbox. A program that ends it, is too slow or answers what is no answer has failed, alone.

    Raises SandboxUnavailable where the sandbox itself fails.
    """
    from components.hybrid.condition_programs import ProgramsHeld

    def run(programs: Sequence["Program"], facts: "Facts") -> ProgramsHeld:
        num_states = len(next(iter(facts.values())))
        held, failures = np.zeros((num_states, len(programs)), np.bool_), [""] * len(programs)
        for first in range(0, num_states, _MOST_STATES):
            part = {name: values[first : first + _MOST_STATES] for name, values in facts.items()}
            for number, (bits, failure) in enumerate(_answers(sandbox, programs, part)):
                held[first : first + _MOST_STATES, number] = bits
                failures[number] = failures[number] or failure
        return ProgramsHeld(held_R_G=held, failures_G=tuple(failures))

    return run


def with_warnings(run: "ProgramRunner") -> "ProgramRunner":
    """The same, and each failure is logged."""

    def run_and_tell(programs: Sequence["Program"], facts: "Facts") -> "ProgramsHeld":
        held = run(programs, facts)
        for program, failure in zip(programs, held.failures_G, strict=True):
            if failure:
                name, text = printable(program.name, keep=""), printable(program.text, keep="")
                _log.warning("subgoal %s: `%s` failed and counts as not met: %s", name, text, failure)
        return held

    return run_and_tell


def tried_reader(run: "ProgramRunner") -> "LessonReader":
    """Reads lessons in Python, and refuses what fails in each of the states that it is tried in."""
    from components.hybrid.subgoals import read_programs, tried_lesson

    return lambda text, names: tried_lesson(read_programs(text, names), run)


def check_programs(text: str, run: "ProgramRunner") -> None:
    """Raise ConfigurationError for a user's subgoals of which one fails wherever it is tried."""
    from components.hybrid.game_facts import LARGEST

    lesson: Lesson = tried_reader(run)(text, LARGEST)
    if lesson.refusals:
        raise ConfigurationError(f"hybrid.subgoals: {lesson.refusals[0]}; write another condition")


def _answers(sandbox: Sandbox, programs: Sequence["Program"], facts: "Facts") -> "list[tuple[Booleans, str]]":
    """The bits of each program in each state, and how it failed."""
    found = _run(sandbox, programs, facts)
    if not isinstance(found, str):
        return found
    num_states = len(next(iter(facts.values())))
    if len(programs) == 1:
        return [(np.zeros(num_states, np.bool_), found)]
    return [answer for each in programs for answer in _answers(sandbox, [each], facts)]


def _run(sandbox: Sandbox, programs: Sequence["Program"], facts: "Facts") -> "list[tuple[Booleans, str]] | str":
    """The answers of one run in the box, or how it failed."""
    from components.hybrid.condition_programs import BUILTINS

    num_states = len(next(iter(facts.values())))
    used = {name for each in programs for name in each.names} & facts.keys()
    given = {
        "facts": {name: facts[name].tolist() for name in sorted(used)},
        "num_states": num_states,
        "programs": [each.text for each in programs],
        "builtins": BUILTINS,
    }
    result = sandbox.run(_MAIN, stdin=json.dumps(given), limits=_LIMITS)
    if result.status == "sandbox_error":
        raise SandboxUnavailable(f"subgoals in Python: {result.detail}")
    if result.status != "ok":
        return f"{result.status}: {result.detail}"
    try:
        read = bounded_json(result.stdout)
        answers = [(_bits(text, num_states), _one_line(failure)) for text, failure in read]
        return (
            answers
            if len(answers) == len(programs)
            else f"it wrote {len(answers)} answers for {len(programs)} programs"
        )
    except (ValueError, TypeError):
        return "it wrote something else than an answer"


def _one_line(failure: str) -> str:
    """What a box says of a failure, which a program may have written: without control characters, and short."""
    return printable(failure, keep="")[:_LONGEST_FAILURE]


def _bits(text: str, num_states: int) -> "Booleans":
    bits = f"{int(text, 16):b}"
    if len(bits) != num_states + 1:
        raise ValueError(f"{len(bits) - 1} bits for {num_states} states")
    return np.array([bit == "1" for bit in bits[1:]], np.bool_)
