"""The interface of a dataset layout, and the division of a row's tests into visible, hidden and spare ones."""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.environments.base import Split
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.text import plain_prose
from components.environments.shared.dataset_rows import DatasetSource, load_rows
from components.environments.shared.text import shortened

Row = Mapping[str, Any]
_MAX_SOLUTION_CHARACTERS = 20_000
"""Longer solutions do not become the reference."""

LEETCODE_PREAMBLE = (
    "import bisect, collections, functools, heapq, itertools, math, random, re, string\n"
    "from collections import *\nfrom typing import *\n\n"
)
"""The imports that LeetCode-like sites provide."""


class Unusable(Exception):
    """Why a row makes no problem. Caught while a dataset is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One dataset: its sources, and the conversion of its rows."""

    places: Mapping[Split, DatasetSource]
    """The hub source of each split; empty for a dataset that is not on the hub."""
    statement: str
    """The column of the statement. Rows with equal statements are equal problems."""
    problem: Callable[[Row, CodeOptions], CodeProblem]
    """A row as a problem. Raises Unusable."""
    load: Callable[[DatasetSource, str], Sequence[Row]] = load_rows
    """The rows of a source, given with its option's name. Raises ConfigurationError."""


def assembled(
    options: CodeOptions,
    *,
    statement: str,
    shown: Sequence[Case],
    deciding: Sequence[Case],
    num_hidden: int = 12,
    solutions: Iterable[str] = (),
    entry: str = "",
    preamble: str = "",
    notes: Sequence[str] = (),
) -> CodeProblem:
    """The problem of a row: visible tests from the dataset's public ones (`shown`), hidden and then spare ones from its private
    ones (`deciding`); `num_hidden` is the default of that option. `notes` follow the statement and are never cut.

    A test is not both visible and hidden; if only shown tests can decide, they are hidden. Raises Unusable without any
    deciding test. The reference is the shortest solution that can be parsed.
    """
    fitting = [_distinct(cases, options.max_test_characters) for cases in (shown, deciding)]
    shown_inputs = {case.given.rstrip() for case in fitting[0]}
    kept_back = [case for case in fitting[1] if case.given.rstrip() not in shown_inputs] or fitting[1]
    if not kept_back:
        raise Unusable("no test decides")
    num_hidden = options.num_hidden_tests or num_hidden
    hidden = tuple(kept_back[:num_hidden])
    hidden_inputs = {case.given.rstrip() for case in hidden}
    visible = [case for case in fitting[0] if case.given.rstrip() not in hidden_inputs]
    return CodeProblem(
        kind="function" if entry else "stdin",
        statement=shortened(plain_prose(statement).strip(), options.max_statement_characters)
        + "".join(f"\n{plain_prose(note)}" for note in notes),
        entry=entry,
        preamble=preamble,
        reference=_reference(solutions),
        visible=tuple(visible[: options.num_visible_tests]),
        hidden=hidden,
        spare=tuple(kept_back[num_hidden:][: options.max_generated_tests]),
        bounds=options.bounds,
    )


def split_shown(cases: Sequence[Case], options: CodeOptions) -> tuple[Sequence[Case], Sequence[Case]]:
    """The tests of a dataset without public ones, divided: the first ones are shown, at least one decides."""
    num_shown = max(0, min(options.num_visible_tests, len(cases) - 1))
    return cases[:num_shown], cases[num_shown:]


def _distinct(cases: Iterable[Case], max_characters: int) -> list[Case]:
    """One test per input, trailing white space aside, without too long ones."""
    found: dict[str, Case] = {}
    for case in cases:
        if max(len(case.given), len(case.expected)) <= max_characters and case.expected:
            found.setdefault(case.given.rstrip(), case)
    return list(found.values())


def _reference(solutions: Iterable[str]) -> str | None:
    for solution in sorted(solutions, key=lambda text: (len(text), text)):
        if len(solution) > _MAX_SOLUTION_CHARACTERS:
            return None
        try:
            ast.parse(solution)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        return solution.replace("\r\n", "\n").rstrip() + "\n"
    return None
