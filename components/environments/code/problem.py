"""A programming problem as a value, and as the plain JSON of a payload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from components.artifacts.refs import Frozen

Kind = Literal["stdin", "function"]
"""stdin: a program that reads and prints. function: a function that is called and returns."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProblem:
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

    def payload(self) -> dict[str, Any]:
        """This problem as JSON."""
        return {
            "kind": self.kind,
            "statement": self.statement,
            "entry": self.entry,
            "preamble": self.preamble,
            "reference": self.reference,
            "visible": [[case.given, case.expected] for case in self.visible],
            "hidden": [[case.given, case.expected] for case in self.hidden],
            "spare": [[case.given, case.expected] for case in self.spare],
            "bounds": self.bounds.model_dump(),
        }


def problem_of(payload: Mapping[str, Any]) -> CodeProblem:
    """The problem that `CodeProblem.payload` wrote."""
    return CodeProblem(
        kind=payload["kind"],
        statement=payload["statement"],
        entry=payload["entry"],
        preamble=payload["preamble"],
        reference=payload["reference"],
        visible=_cases(payload["visible"]),
        hidden=_cases(payload["hidden"]),
        spare=_cases(payload["spare"]),
        bounds=Bounds(**payload["bounds"]),
    )


def _cases(pairs: Sequence[Sequence[str]]) -> tuple[Case, ...]:
    return tuple(Case(given=given, expected=expected) for given, expected in pairs)
