"""The border of a dataset's layout, and how the tests of a row are divided."""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.environments.base import Split
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.text import plain_prose, shortened
from components.environments.shared.dataset_rows import DatasetSource, load_rows

Row = Mapping[str, Any]
_MAX_SOLUTION_CHARACTERS = 20_000
"""A longer one is passed over: it becomes no reference, of which mutants would be made."""

LEETCODE_PREAMBLE = (
    "import bisect, collections, functools, heapq, itertools, math, random, re, string\n"
    "from collections import *\nfrom typing import *\n\n"
)
"""What the sites that ask for functions import for everybody."""


class Unusable(Exception):
    """A row that makes no problem, and why. It never leaves the loading of a dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One dataset: where it lies, and what its rows mean."""

    places: Mapping[Split, DatasetSource]
    """Where each split lies on the hub; empty for a dataset of a package, one split for a dataset that has only that."""
    statement: str
    """The column of the statement, which alone decides which rows are equal."""
    problem: Callable[[Row, CodeOptions], CodeProblem]
    """A row as a problem. Raises Unusable."""
    load: Callable[[DatasetSource, str], Sequence[Row]] = load_rows
    """The rows of a source, which the option of that name gives. Raises ConfigurationError."""


def assembled(
    options: CodeOptions,
    *,
    statement: str,
    shown: Sequence[Case],
    deciding: Sequence[Case],
    num_hidden: int,
    solutions: Iterable[str] = (),
    entry: str = "",
    preamble: str = "",
    notes: Sequence[str] = (),
) -> CodeProblem:
    """The problem of a row: visible tests from those that the dataset gives away (`shown`), hidden ones, `num_hidden` where the
    options do not say, and then spare ones from those that it keeps back (`deciding`). `notes` stand under the statement and
    are never cut.

    A shown test is no hidden one as well, unless nothing else decides; then it is hidden alone. Raises Unusable where no test
    decides. The reference is the shortest solution that can be parsed.
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
    """The tests of a dataset that names none public: the first ones to be shown, at least one to decide."""
    num_shown = max(0, min(options.num_visible_tests, len(cases) - 1))
    return cases[:num_shown], cases[num_shown:]


def _distinct(cases: Iterable[Case], max_characters: int) -> list[Case]:
    """One test for each input, whatever white space ends it, without too long ones."""
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
