"""deepmind/code_contests: public, private and generated tests, and solutions in several languages."""

from collections.abc import Mapping, Sequence

from components.environments.code.grammar import stdin_case
from components.environments.code.layouts.layout import Grading, Layout, Row, Unusable, assemble_problem
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.shared.dataset_rows import DatasetSource

_PYTHON3 = 3
"""In the column `solutions.language`; 1 is Python 2."""
_MAX_SECONDS = 60.0
"""A few rows hold nonsense here; no contest allows more."""
_HUB = "deepmind/code_contests"


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    if row.get("input_file") or row.get("output_file"):
        raise Unusable("it reads or writes files")
    solutions = zip(row["solutions"]["language"], row["solutions"]["solution"], strict=True)
    return assemble_problem(
        options,
        statement=str(row["description"]),
        shown=_cases(row["public_tests"]),
        deciding=[*_cases(row["private_tests"]), *_cases(row["generated_tests"])],
        grading=_grading(row),
        solutions=[text for language, text in solutions if language == _PYTHON3],
    )


def _grading(row: Row) -> Grading:
    """The authors' grader runs public, private and generated tests, under the limits of the contest. The limit of time is null
    where the contest gave none, and that of memory is then 0."""
    limit, memory_bytes = row.get("time_limit"), row.get("memory_limit_bytes")
    seconds = limit["seconds"] + limit.get("nanos", 0) / 1e9 if limit else 0.0
    return Grading(
        grader="code_contests",
        cpu_seconds=min(seconds, _MAX_SECONDS) if seconds > 0 else None,
        memory_mib=memory_bytes >> 20 if memory_bytes else None,
    )


def _cases(tests: Mapping[str, Sequence[str]]) -> list[Case]:
    return [stdin_case(given, expected) for given, expected in zip(tests["input"], tests["output"], strict=True)]


CODE_CONTESTS = Layout(
    places={"train": DatasetSource(path=_HUB, split="train"), "test": DatasetSource(path=_HUB, split="test")},
    statement="description",
    problem=_problem,
)
