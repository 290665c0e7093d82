"""deepmind/code_contests: public, private and generated tests, and solutions in several languages."""

from collections.abc import Mapping, Sequence

from components.environments.code.grammar import stdin_case
from components.environments.code.layouts.layout import Layout, Row, Unusable, assembled
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.shared.dataset_rows import DatasetSource

_PYTHON3 = 3
"""In the column `solutions.language`; 1 is Python 2."""
_HUB = "deepmind/code_contests"


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    if row.get("input_file") or row.get("output_file"):
        raise Unusable("it reads or writes files")
    solutions = zip(row["solutions"]["language"], row["solutions"]["solution"], strict=True)
    return assembled(
        options,
        statement=str(row["description"]),
        shown=_cases(row["public_tests"]),
        deciding=[*_cases(row["private_tests"]), *_cases(row["generated_tests"])],
        solutions=[text for language, text in solutions if language == _PYTHON3],
    )


def _cases(tests: Mapping[str, Sequence[str]]) -> list[Case]:
    return [stdin_case(given, expected) for given, expected in zip(tests["input"], tests["output"], strict=True)]


CODE_CONTESTS = Layout(
    places={"train": DatasetSource(path=_HUB, split="train"), "test": DatasetSource(path=_HUB, split="test")},
    statement="description",
    problem=_problem,
)
