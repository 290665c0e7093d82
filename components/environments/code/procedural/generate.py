"""A drawn puzzle as a problem: statement, reference program, and tests derived from the statement alone."""

import ast
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

from components.environments.code.grammar import function_case, stdin_case
from components.environments.code.options import LEVELS, CodeOptions
from components.environments.code.problem import Case, CodeProblem, Kind
from components.environments.code.procedural.puzzle import PUZZLES, InputKind, Puzzle, source_of
from components.identity import seed_for

_NUM_HIDDEN = 6
_MAX_DRAWS_PER_CASE = 40
_READ: Mapping[InputKind, str] = {
    "integer": "int(input())",
    "integers": "list(map(int, input().split()))",
    "text": "input()",
    "words": "input().split()",
}
_NOUNS: Mapping[InputKind, str] = {"integer": "", "integers": "numbers ", "text": "text ", "words": "words "}


def draw_puzzle(options: CodeOptions, rng: Random) -> dict[str, Any]:
    """The name of a random puzzle, its parameters, and the kind of program."""
    one = rng.choice(puzzles_of(rng.choice(options.levels)))
    parameters = {name: draw.draw(rng) for name, draw in one.parameters.items()}
    return {"puzzle": one.name, "parameters": parameters, "kind": rng.choice(options.kinds)}


def make_problem(one: Puzzle, parameters: Mapping[str, Any], kind: Kind, options: CodeOptions) -> CodeProblem | None:
    """The problem of `one` with `parameters`; None if it has too few different tests, tests that a constant would pass, or a
    reference longer than an answer may be."""
    statement = statement_of(one, parameters, kind)
    counts = (options.num_visible_tests, options.num_hidden_tests or _NUM_HIDDEN, options.max_generated_tests)
    cases = _cases(one, parameters, kind, sum(counts), Random(seed_for(0, "code", "tests", statement)))
    visible, hidden = cases[: counts[0]], cases[counts[0] : counts[0] + counts[1]]
    reference = reference_of(one, parameters, kind)
    is_constant = len({case.expected for case in hidden}) < 2
    if len(cases) < sum(counts) or is_constant or len(reference) > options.max_answer_characters:
        return None
    return CodeProblem(
        kind=kind,
        statement=statement,
        entry="f" if kind == "function" else "",
        preamble="",
        reference=reference,
        visible=visible,
        hidden=hidden,
        spare=cases[counts[0] + counts[1] :],
        bounds=options.bounds,
    )


def statement_of(one: Puzzle, parameters: Mapping[str, Any], kind: Kind) -> str:
    """The task in words."""
    task = one.task.format(**parameters)
    if kind == "function":
        return f"Write f({', '.join(one.inputs)}) that returns {task}."
    names = [_NOUNS[draw.kind] + name for name, draw in one.inputs.items()]
    lines = f" from {len(names)} lines" if len(names) > 1 else ""
    return f"Read {' and '.join(names)}{lines}. Print {task}."


def reference_of(one: Puzzle, parameters: Mapping[str, Any], kind: Kind) -> str:
    """A correct program: the function, or a plain script that reads, computes and prints."""
    function = source_of(one, parameters)
    if kind == "function":
        return f"{ast.unparse(function)}\n"
    reading = [f"{name} = {_READ[draw.kind]}" for name, draw in one.inputs.items()]
    star = "*" if one.gives_list else ""
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    last = function.body[-1]
    if len(returns) > 1 or not isinstance(last, ast.Return) or last.value is None:
        lines = [ast.unparse(function), *reading, f"print({star}f({', '.join(one.inputs)}))"]
    else:
        lines = [*reading, *map(ast.unparse, function.body[:-1]), f"print({star}{ast.unparse(last.value)})"]
    return "\n".join(lines) + "\n"


def _cases(one: Puzzle, parameters: Mapping[str, Any], kind: Kind, num_cases: int, rng: Random) -> tuple[Case, ...]:
    """Up to `num_cases` tests with different inputs."""
    found: dict[str, Case] = {}
    for _ in range(num_cases * _MAX_DRAWS_PER_CASE):
        if len(found) == num_cases:
            break
        arguments = [draw.draw(rng) for draw in one.inputs.values()]
        value = one.function(*deepcopy(arguments), **parameters)
        if kind == "function":
            case = function_case(arguments, value)
        else:
            case = stdin_case("\n".join(map(_line, arguments)), _line(value))
        found.setdefault(case.given, case)
    return tuple(found.values())


def _line(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


@cache
def puzzles_of(level: int) -> tuple[Puzzle, ...]:
    """The puzzles of one level."""
    for number in LEVELS:
        import_module(f"components.environments.code.procedural.level{number}")
    return tuple(one for one in PUZZLES.values() if one.level == level)
