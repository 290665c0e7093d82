"""The interface of a dataset layout, and the division of a row's tests into visible, hidden and spare ones."""

import ast
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.environments.base import Split
from components.environments.code.options import CodeOptions
from components.environments.code.packed import MAX_TESTS_BYTES
from components.environments.code.problem import Case, CodeProblem, Grader
from components.environments.code.text import plain_prose
from components.environments.shared.dataset_rows import DatasetSource, load_rows
from components.environments.shared.text import shorten

Row = Mapping[str, Any]
_MAX_SOLUTION_CHARACTERS = 20_000
"""Longer solutions do not become the reference."""

MAX_GIVEN_BYTES = 15 << 20
"""Of a test's input: a sandbox takes 16 MiB with the program."""
MAX_EXPECTED_BYTES = (4 << 20) - 1024
"""Of its output: a sandbox returns 4 MiB."""


class Unusable(Exception):
    """Why a row makes no problem. Caught while a dataset is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """How the authors of a dataset score a program on one problem: their comparison or checker, their limits of one test
    (None: none), and whether all public tests count as well."""

    grader: Grader = "usual"
    checker: str = ""
    cpu_seconds: float | None = None
    memory_mib: int | None = None
    shown_decide: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One dataset: its sources, and the conversion of its rows."""

    places: Mapping[Split, DatasetSource]
    """The hub source of each split; empty for a dataset that is not on the hub."""
    statement: str
    """The column of the statement. Rows with equal statements are equal problems."""
    problem: Callable[[Row, CodeOptions], CodeProblem]
    """A row as a problem. Raises Unusable."""
    date: str | None = None
    """The column of the contest's date, which begins with an ISO day."""
    load: Callable[[DatasetSource, str], Sequence[Row]] = load_rows
    """The rows of a source, given with its option's name. Raises ConfigurationError."""


def assemble_problem(
    options: CodeOptions,
    *,
    statement: str,
    shown: Sequence[Case],
    deciding: Sequence[Case],
    grading: Grading,
    solutions: Iterable[str] = (),
    entry: str = "",
    preamble: str = "",
    notes: Sequence[str] = (),
) -> CodeProblem:
    """The problem of a row: visible tests from the dataset's public ones (`shown`), hidden and then spare ones from its private
    ones (`deciding`). `notes` follow the statement and are never cut.

    All private tests decide, and where `grading.shown_decide` the public ones too: those beyond the visible ones are hidden. A
    test is not both visible and hidden, so the visible tests that decide come first and are counted; if no other test can
    decide, they are hidden.
    Raises Unusable without any deciding test, and if a test fits into no sandbox or is longer than the option allows. The
    reference is the shortest solution that can be parsed.
    """
    public, private = _distinct(shown), _distinct(deciding)
    _check_sizes((*public, *private), options.max_test_characters, has_checker=bool(grading.checker))
    public, further = public[: options.num_visible_tests], public[options.num_visible_tests :]
    if grading.shown_decide:
        private = _distinct([*further, *private])
    shown_inputs = {case.given.rstrip() for case in public}
    kept_back = [case for case in private if case.given.rstrip() not in shown_inputs] or private
    if not any(case.expected for case in kept_back):
        raise Unusable("no test decides")
    num_hidden = options.num_hidden_tests or len(kept_back)
    hidden = tuple(kept_back[:num_hidden])
    hidden_inputs = {case.given.rstrip() for case in hidden}
    visible = [case for case in public if case.given.rstrip() not in hidden_inputs]
    private_inputs = {case.given.rstrip() for case in private}
    decides = [grading.shown_decide or case.given.rstrip() in private_inputs for case in visible]
    visible = [case for case, does in sorted(zip(visible, decides, strict=True), key=lambda pair: not pair[1])]
    cpu_seconds = grading.cpu_seconds
    return CodeProblem(
        kind="function" if entry else "stdin",
        statement=shorten(plain_prose(statement).strip(), options.max_statement_characters)
        + "".join(f"\n{plain_prose(note)}" for note in notes),
        entry=entry,
        preamble=preamble,
        reference=_reference(solutions),
        visible=tuple(visible),
        hidden=hidden,
        spare=tuple(kept_back[num_hidden:][: options.max_generated_tests]),
        bounds=options.bounds,
        grader="usual" if options.comparison == "usual" else grading.grader,
        checker=grading.checker,
        cpu_seconds=None if cpu_seconds is None else cpu_seconds * options.time_limit_factor,
        memory_mib=grading.memory_mib,
        num_visible_deciding=sum(decides),
    )


def split_shown(cases: Sequence[Case], options: CodeOptions) -> tuple[Sequence[Case], Sequence[Case]]:
    """The tests of a dataset without public ones, divided: the first ones are shown, at least one decides."""
    num_shown = max(0, min(options.num_visible_tests, len(cases) - 1))
    return cases[:num_shown], cases[num_shown:]


def _distinct(cases: Iterable[Case]) -> list[Case]:
    """One test per input, trailing white space aside."""
    found: dict[str, Case] = {}
    for case in cases:
        found.setdefault(case.given.rstrip(), case)
    return list(found.values())


def _check_sizes(cases: Iterable[Case], max_characters: int | None, *, has_checker: bool) -> None:
    """Raise Unusable for a test that is too long. A checker gets input, expected and actual output together."""
    max_given = MAX_GIVEN_BYTES // 2 if has_checker else MAX_GIVEN_BYTES
    num_bytes = 0
    for case in cases:
        given, expected = len(case.given.encode("utf-8", "replace")), len(case.expected.encode("utf-8", "replace"))
        if given > max_given or expected > MAX_EXPECTED_BYTES:
            raise Unusable(f"a test of {given} bytes of input and {expected} of output, more than a sandbox takes")
        num_bytes += len(json.dumps(case))
        if max_characters is not None and max(len(case.given), len(case.expected)) > max_characters:
            raise Unusable(
                f"a test of {max(len(case.given), len(case.expected))} characters; max_test_characters is {max_characters}"
            )
    if num_bytes > MAX_TESTS_BYTES - 1024:
        raise Unusable(f"tests of {num_bytes} bytes; at most {MAX_TESTS_BYTES} are kept")


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
