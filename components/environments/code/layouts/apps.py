"""codeparrot/apps: question, solutions and input_output, the last two as JSON texts."""

from collections.abc import Sequence
from typing import Any

from components.bounded_json import bounded_json
from components.environments.code.grammar import function_case, stdin_case
from components.environments.code.layouts.layout import (
    LEETCODE_PREAMBLE,
    Layout,
    Row,
    Unusable,
    assembled,
    split_shown,
)
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.shared.dataset_rows import DatasetSource

_HUB = {"path": "codeparrot/apps", "revision": "refs/convert/parquet"}
"""The main branch is a script, which `datasets` no longer runs. This branch has no configurations: it holds the problems of
each difficulty and of all, so each twice; a train split keeps one copy, a suite for evaluation too."""
_NUM_HIDDEN = 12


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    if not row["input_output"]:
        raise Unusable("no tests")
    try:
        tests = bounded_json(row["input_output"])
        solutions = bounded_json(row["solutions"]) if row["solutions"] else []
    except ValueError as error:
        raise Unusable(f"no JSON: {error}") from error
    entry = tests.get("fn_name", "")
    pairs = list(zip(tests["inputs"], tests["outputs"], strict=False))
    cases = _function_cases(pairs) if entry else [stdin_case(_text(given), _text(wanted)) for given, wanted in pairs]
    shown, deciding = split_shown(cases, options)
    return assembled(
        options,
        statement=str(row["question"]),
        shown=shown,
        deciding=deciding,
        solutions=solutions,
        entry=entry,
        preamble=LEETCODE_PREAMBLE if entry else "",
        notes=[f"Write the function {entry}.", row["starter_code"] or ""] if entry else (),
        num_hidden=_NUM_HIDDEN,
    )


def _function_cases(pairs: Sequence[tuple[Any, Any]]) -> list[Case]:
    """Some problems put each output into a list of its own; where all do, the lists of one are such wrappings."""
    if not all(isinstance(given, list) for given, _ in pairs):
        raise Unusable("arguments that are no list")
    wrapped = all(isinstance(wanted, list) and len(wanted) == 1 for _, wanted in pairs)
    try:
        return [function_case(given, wanted[0] if wrapped else wanted) for given, wanted in pairs]
    except (ValueError, TypeError) as error:
        raise Unusable(f"a test that JSON cannot spell: {error}") from error


def _text(value: Any) -> str:
    """Input or output of a program; some rows hold it as a list of lines."""
    return "\n".join(map(_text, value)) if isinstance(value, list) else str(value)


APPS = Layout(
    places={"train": DatasetSource(**_HUB, split="train"), "test": DatasetSource(**_HUB, split="test")},
    statement="question",
    problem=_problem,
)
