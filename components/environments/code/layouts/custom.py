"""User-defined problems: a JSONL file of `{"prompt": ..., "tests": [{"input": ..., "output": ...}, ...]}`."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Self

from pydantic import Field, model_validator

from components.environments.code.grammar import function_case, stdin_case
from components.environments.code.layouts.layout import Grading, Layout, Row, assemble_problem, split_shown
from components.environments.code.options import CodeOptions
from components.environments.code.problem import CodeProblem
from components.environments.code.programs import syntax_fault
from components.environments.shared.custom_rows import CustomRow, make_row_reader
from components.environments.shared.dataset_rows import DatasetSource
from components.environments.shared.splits import tell_of_contradictions


class OwnTest(CustomRow):
    """What a program reads and must print, or a function's arguments as a list and what it must return."""

    input: Any
    output: Any


class CustomProblem(CustomRow):
    """One line: a task, and the tests that decide. The first tests are shown to the team.

    With `entry` the tests call a function of that name. `solution` is a correct program, for experts and mutants. `checker` is
    a Python program that judges outputs where several are right (`judging.checking`): it reads the files input, expected and
    output, values of functions as JSON, and accepts by ending normally.

    **Example** `{"prompt": "Print the sum of two numbers.", "tests": [{"input": "1 2", "output": "3"}, ...]}`, and
    `{"prompt": "Add two numbers.", "entry": "add", "tests": [{"input": [1, 2], "output": 3}, ...]}`.
    """

    prompt: str
    tests: list[OwnTest] = Field(min_length=1)
    entry: str = ""
    solution: str | None = None
    checker: str | None = None
    time_limit_seconds: float | None = Field(None, gt=0.0, le=600.0)
    """CPU time of one test; None: the run's."""
    memory_limit_mib: int | None = Field(None, ge=1)
    """Holds below the run's limit."""

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if not self.prompt.strip():
            raise ValueError("prompt: empty")
        if self.entry and not self.entry.isidentifier():
            raise ValueError(f"entry: {self.entry!r} is no name of a function")
        if self.checker is not None and (fault := syntax_fault(self.checker) or _emptiness(self.checker)):
            raise ValueError(f"checker: {fault}")
        for number, test in enumerate(self.tests):
            if fault := _fault(test, is_function=bool(self.entry)):
                raise ValueError(f"tests.{number}.{fault}")
        return self


def _emptiness(program: str) -> str | None:
    return None if program.strip() else "empty, so that it would accept everything"


def _fault(test: OwnTest, *, is_function: bool) -> str | None:
    """The first error in a test, beginning with the name of its field."""
    if is_function:
        return None if isinstance(test.input, list) else "input: the arguments of a function are a list"
    for name, value in (("input", test.input), ("output", test.output)):
        if not isinstance(value, str):
            return f"{name}: {type(value).__name__} instead of text; a function, which takes values, needs `entry`"
    return None if test.output.strip() else "output: empty, so that nothing would decide"


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    entry = row["entry"]
    case_of = function_case if entry else stdin_case
    shown, deciding = split_shown([case_of(test["input"], test["output"]) for test in row["tests"]], options)
    return assemble_problem(
        options,
        statement=str(row["prompt"]),
        shown=shown,
        deciding=deciding,
        solutions=[row["solution"]] if row["solution"] else (),
        entry=entry,
        notes=[f"Write the function {entry}."] if entry else (),
        grading=Grading(
            checker=row["checker"] or "", cpu_seconds=row["time_limit_seconds"], memory_mib=row["memory_limit_mib"]
        ),
    )


@cache
def _load(source: DatasetSource, field: str) -> Sequence[Row]:
    rows = _READ(source, field)
    tests = ((row, test) for row in rows for test in row["tests"])
    asked = ((json.dumps([row["prompt"], test["input"]]), json.dumps(test["output"])) for row, test in tests)
    tell_of_contradictions(f"{field}.path {source.path!r}", asked)
    return rows


_READ = make_row_reader(CustomProblem)
CUSTOM = Layout(places={}, statement="prompt", problem=_problem, load=_load)
