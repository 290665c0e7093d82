"""A programming problem; its JSON is the payload."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from components.environments.code.packed import pack_problem, unpack_problem
from components.frozen import Frozen

Kind = Literal["stdin", "function"]
"""stdin: a program that reads and prints. function: a function that is called and returns."""
KINDS: tuple[Kind, ...] = get_args(Kind)
Grader = Literal["usual", "exact", "truth", "livecodebench", "apps", "code_contests"]
"""How outputs are compared with expected ones: usual is ours, the others are those of datasets (`graders.py`)."""


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

    `checker` is a program that judges outputs where several are right, empty where `grader` compares them with the expected
    one. `cpu_seconds` and `memory_mib` are the dataset's limits of one test, None if it gives none. A program must pass the
    first `num_visible_deciding` visible tests too, which the dataset's authors count.
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
    grader: Grader = "usual"
    checker: str = ""
    cpu_seconds: float | None = None
    memory_mib: int | None = None
    num_visible_deciding: int = 0

    @model_serializer(mode="wrap")
    def _shorten(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Fields with a default are left out at it, so that only problems that use them carry them; long tests are packed."""
        defaults = {name: known.default for name, known in type(self).model_fields.items() if not known.is_required()}
        written = handler(self).items()
        return pack_problem({name: value for name, value in written if name not in defaults or value != defaults[name]})

    @model_validator(mode="before")
    @classmethod
    def _with_tests(cls, value: Any) -> Any:
        return unpack_problem(value) if isinstance(value, Mapping) else value
