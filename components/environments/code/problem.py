"""A programming problem as a value; its JSON is the payload."""

from typing import Literal, NamedTuple, get_args

from components.artifacts.refs import Frozen

Kind = Literal["stdin", "function"]
"""stdin: a program that reads and prints. function: a function that is called and returns."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Case(NamedTuple):
    """One test. Of a stdin problem: what the program reads and what it must print. Of a function problem: its arguments as
    a JSON list, and what it must return as JSON."""

    given: str
    expected: str


class Bounds(Frozen):
    """How much may be written, shown and run in one problem."""

    max_cases: int
    max_mutants: int
    max_answer_characters: int
    max_case_characters: int


class CodeProblem(Frozen):
    """What is to be programmed, and the tests that say whether it was.

    `visible` tests are shown, `hidden` ones decide and are never shown, `spare` ones are what an expert tester writes. A
    program is run behind `preamble`; `entry` is the function that must exist, empty in a stdin problem. `reference` is a
    right program, None where the dataset has none.
    """

    kind: Kind
    statement: str
    entry: str
    preamble: str
    reference: str | None
    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]
    spare: tuple[Case, ...]
    bounds: Bounds
