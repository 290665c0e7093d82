"""A programming problem; its JSON is the payload."""

from typing import Literal, NamedTuple, get_args

from components.artifacts.refs import Frozen

Kind = Literal["stdin", "function"]
"""stdin: a program that reads and prints. function: a function that is called and returns."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Case(NamedTuple):
    """One test: what a program reads and must print, or a function's arguments as a JSON list and its return value as JSON."""

    given: str
    expected: str


class Bounds(Frozen):
    """Limits of what is written, shown and run in one problem."""

    max_cases: int
    max_mutants: int
    max_answer_characters: int
    max_case_characters: int


class CodeProblem(Frozen):
    """A programming task and its tests.

    `visible` tests are shown, `hidden` ones decide and are never shown, `spare` ones are the expert tester's. `preamble` is
    put before every program; `entry` is the function to write, empty in a stdin problem. `reference` is a correct program,
    None if the dataset has none.
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
