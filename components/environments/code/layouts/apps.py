"""codeparrot/apps: question, solutions and input_output, the last two as JSON texts."""

from collections.abc import Sequence
from typing import Any

from components.environments.code.grammar import function_case, stdin_case
from components.environments.code.layouts.layout import (
    Grading,
    Layout,
    Row,
    Unusable,
    assemble_problem,
    split_shown,
)
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.shared.dataset_rows import DatasetSource
from components.text.bounded_json import parse_bounded_json

_HUB = {"path": "codeparrot/apps", "revision": "refs/convert/parquet"}
"""The main branch is a script, which `datasets` does not run. This branch has no configurations: it holds the problems by
difficulty and all together, so each twice; train splits and evaluation suites drop the second copy."""


_PREAMBLE = (
    "import bisect, collections, fractions, functools, heapq, itertools, math, random, re, string, sys, time\n"
    "from itertools import accumulate, product, permutations, combinations\n"
    "from collections import *\nfrom functools import lru_cache\nfrom heapq import *\nfrom typing import *\n"
    "from math import sqrt, sin, cos, tan, ceil, fabs, floor, gcd, exp, log, log2\n\n"
)
"""The imports that the authors put before every program, without numpy, which no sandbox has."""
_GRADING = Grading(grader="apps", cpu_seconds=4.0)
"""The authors' `eval/testing_util.py`: 4 s per test, no limit of memory."""


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    if not row["input_output"]:
        raise Unusable("no tests")
    try:
        tests = parse_bounded_json(row["input_output"])
        solutions = parse_bounded_json(row["solutions"]) if row["solutions"] else []
    except ValueError as error:
        raise Unusable(f"no JSON: {error}") from error
    entry = tests.get("fn_name", "")
    pairs = list(zip(tests["inputs"], tests["outputs"], strict=False))
    cases = _function_cases(pairs) if entry else [stdin_case(_text(given), _text(wanted)) for given, wanted in pairs]
    shown, deciding = split_shown(cases, options)
    return assemble_problem(
        options,
        statement=str(row["question"]),
        shown=shown,
        deciding=deciding,
        grading=_GRADING,
        solutions=solutions,
        entry=entry,
        preamble=_PREAMBLE,
        notes=[f"Write the function {entry}.", row["starter_code"] or ""] if entry else (),
    )


def _function_cases(pairs: Sequence[tuple[Any, Any]]) -> list[Case]:
    """Some problems wrap each output in a list of its own: a problem whose outputs are all lists of one is unwrapped."""
    if not all(isinstance(given, list) for given, _ in pairs):
        raise Unusable("arguments that are no list")
    wrapped = all(isinstance(wanted, list) and len(wanted) == 1 for _, wanted in pairs)
    try:
        return [function_case(given, wanted[0] if wrapped else wanted) for given, wanted in pairs]
    except (ValueError, TypeError) as error:
        raise Unusable(f"a test that JSON cannot represent: {error}") from error


def _text(value: Any) -> str:
    """Input or output of a program; some rows have a list of lines."""
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)


APPS = Layout(
    places={"train": DatasetSource(**_HUB, split="train"), "test": DatasetSource(**_HUB, split="test")},
    statement="question",
    problem=_problem,
)
