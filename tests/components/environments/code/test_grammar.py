"""What a tester may write, and that nothing it writes is run or breaks the reader."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.code.grammar import cases_in, format_case, function_case, stdin_case
from components.environments.code.problem import Bounds, Case, CodeProblem
from components.errors import MalformedAction
from tests.costs import assert_cheap

Made = Callable[..., CodeProblem]
ROOMY = Bounds(max_cases=9, max_mutants=4, max_answer_characters=20_000, max_case_characters=60)
FUNCTION = {"kind": "function", "entry": "f", "bounds": ROOMY}


@pytest.mark.parametrize(
    ("answer", "cases"),
    [
        ("3 => 6", [("3\n", "6")]),
        ("3=>6\n4  =>  8\n", [("3\n", "6"), ("4\n", "8")]),
        ("1 2\\n3 => a\\nb", [("1 2\n3\n", "a\nb")]),
        (r"a\\nb => c", [("a\\nb\n", "c")]),
        ("Here are tests:\n- 3 => 6\n2. 4 => 8\n`5 => 10`\nDone.", [("3\n", "6"), ("4\n", "8"), ("5\n", "10")]),
        ("+ 3 => 6\n- -4 => -8", [("3\n", "6"), ("-4\n", "-8")]),
        ("3 => 6\n3 => 7", [("3\n", "6")]),
        (" => 6", [("\n", "6")]),
        ("Input:\n3\n4\nOutput:\n7\n\nInput:\n1\nOutput:\n1\n", [("3\n4\n", "7"), ("1\n", "1")]),
        ("**Test Input:**\n```\n3\n\n4\n```\n**Test Output:**\n```\n7\n```\nthat is it", [("3\n\n4\n", "7")]),
    ],
)
def test_tests_of_a_program(answer: str, cases: list[tuple[str, str]], doubling: Made) -> None:
    assert cases_in(answer, doubling(bounds=ROOMY)) == tuple(Case(given=g, expected=e) for g, e in cases)


@pytest.mark.parametrize(
    ("answer", "arguments", "value"),
    [
        ("3, 4 => 7", "[3, 4]", "7"),
        ('f("a", [1]) => {"b": null}', '["a", [1]]', '{"b": null}'),
        ("f('a', (1, 2), True, None) => [1.5]", '["a", [1, 2], true, null]', "[1.5]"),
        (" => 'x'", "[]", '"x"'),
        ("Input:\n1, 2\nOutput:\n3", "[1, 2]", "3"),
    ],
)
def test_tests_of_a_function(answer: str, arguments: str, value: str, doubling: Made) -> None:
    assert cases_in(answer, doubling(**FUNCTION)) == (Case(given=arguments, expected=value),)


@pytest.mark.parametrize(
    "answer", ["", "no test", "3 -> 6", "3 =>", "=>", "Input:\nOutput:\n", "3 => 6 \ud800", "1" * 401]
)
def test_an_answer_without_a_test_is_malformed(answer: str, doubling: Made) -> None:
    with pytest.raises(MalformedAction):
        cases_in(answer, doubling())


@pytest.mark.parametrize(
    "answer",
    [
        *("f(g) => 1", "1 => __import__('os')", "1, => => 2", "{1} => 1", "b'x' => 1", "1 => nan", "NaN => 1"),
        *("1j => 1", "f(1 => 2"),
    ],
)
def test_what_json_cannot_spell_is_no_test(answer: str, doubling: Made) -> None:
    with pytest.raises(MalformedAction, match="there is no test"):
        cases_in(answer, doubling(**FUNCTION))


def test_tests_beyond_the_limit_are_passed_over(doubling: Made) -> None:
    cases = cases_in("\n".join(f"{n} => {2 * n}" for n in range(9)), doubling())
    assert [case.given for case in cases] == ["0\n", "1\n", "2\n"]


@settings(deadline=None)
@given(
    given_lines=st.lists(st.text("ab \\n=1", max_size=6).map(str.strip), min_size=1, max_size=3),
    expected=st.text("ab\\n1", min_size=1, max_size=6),
)
def test_a_spelled_test_is_read_back(given_lines: list[str], expected: str) -> None:
    case = stdin_case("\n".join(given_lines).strip(), expected)
    problem = CodeProblem(
        kind="stdin", statement="", entry="", preamble="", reference=None, visible=(), hidden=(), spare=(), bounds=ROOMY
    )
    assert cases_in(format_case(case, "stdin"), problem) == (case,)


@settings(deadline=None)
@given(
    arguments=st.lists(st.integers() | st.text(max_size=4) | st.lists(st.floats(-9, 9), max_size=2), max_size=3),
    value=st.none()
    | st.booleans()
    | st.text(max_size=5)
    | st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
def test_a_spelled_test_of_a_function_is_read_back(arguments: list[object], value: object) -> None:
    case = function_case(arguments, value)
    problem = CodeProblem(
        kind="function",
        statement="",
        entry="f",
        preamble="",
        reference=None,
        visible=(),
        hidden=(),
        spare=(),
        bounds=ROOMY,
    )
    assert cases_in(format_case(case, "function"), problem) == (case,)


@pytest.mark.parametrize(
    "text",
    ["[" * 19_000, "=>" * 9_000, "input:\n" * 2_000, "```" * 6_000, '"\\"' * 6_000, "-" * 19_000, "f(" * 9_000, "1," * 9_000,
     "\n" * 19_000, "{1:" * 6_000, "(" * 60 + ")" * 60 + " => 1", "\\" * 19_999],
)  # fmt: skip
def test_long_and_deep_answers_are_read_in_less_than_a_second(text: str, doubling: Made) -> None:
    def read(answer: str, problem: CodeProblem) -> None:
        with suppress(MalformedAction):
            cases_in(answer, problem)

    answers = (text, f"{text} => 1", f"1 => {text}", f"Input:\n{text}\nOutput:\n{text}")
    problems = (doubling(bounds=ROOMY), doubling(**FUNCTION))
    assert_cheap(
        ((answer[:20], partial(read, answer, problem)) for problem in problems for answer in answers),
        most_cpu_seconds=1.0,
    )
