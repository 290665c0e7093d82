"""Programs and answers as agents write them."""

import itertools
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.math.grammar import failure, parse_answer, parse_program, read_printed_answer
from components.environments.shared.answer_extraction import boxes
from components.errors import MalformedAction
from components.schema import ExecutionResult, ExecutionStatus
from tests.costs import assert_cheap


def make_result(
    stdout: str = "", *, stderr: str = "", status: ExecutionStatus = "ok", detail: str = ""
) -> ExecutionResult:
    return ExecutionResult(
        status=status, stdout=stdout, stderr=stderr, exit_code=0, wall_seconds=0.0, cpu_seconds=0.0, detail=detail
    )


@pytest.mark.parametrize(
    "text",
    [
        "print(2)",
        "\n\nprint(2)  \n",
        "Let me see.\n```python\nprint(2)\n```\nDone.",
        "```py\nprint(1)\n```\nor rather\n```python\nprint(2)   \n```",
        "```\nprint(2)\n",
        "```python3\nprint(2)\n```",
    ],
)
def test_equal_programs_are_equal_executions(text: str) -> None:
    assert parse_program(text, max_characters=20).program == "print(2)\n"


@pytest.mark.parametrize(
    "text", ["", " \n", "```python\n```", "print(1)" + " + 1" * 50, "print('\0')", "print('\ud800')"]
)
def test_what_is_no_program(text: str) -> None:
    with pytest.raises(MalformedAction):
        parse_program(text, max_characters=40)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("42", "42"),
        (" 3/4 \n", "3/4"),
        (r"So \boxed{1}, no: \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("line\nline\n\\boxed{ 7 }", "7"),
        (r"\boxed {\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{5} and \boxed{6", "5"),
    ],
)
def test_the_final_answer_is_found(text: str, answer: str) -> None:
    assert parse_answer(text, max_characters=20, numbers_only=False) == answer


@pytest.mark.parametrize("text", ["", "two\nlines", r"\boxed{}", r"\boxed{1", "x" * 21, "\ud800"])
def test_what_is_no_answer(text: str) -> None:
    with pytest.raises(MalformedAction):
        parse_answer(text if text != r"\boxed{1" else text + "\n", max_characters=20, numbers_only=True)


def test_where_numbers_are_asked_for_nothing_else_is_an_answer() -> None:
    assert parse_answer("-12", max_characters=20, numbers_only=True) == "-12"
    with pytest.raises(MalformedAction, match="is no number"):
        parse_answer("12+7", max_characters=20, numbers_only=True)


@given(st.lists(st.sampled_from(["a", "{", "}", r"\{", r"\}", r"\\", r"\\{", r"\\}", r"\frac"]), max_size=8))
def test_a_box_holds_what_its_braces_enclose(pieces: list[str]) -> None:
    braces = [(piece[-1] == "{") - (piece[-1] == "}") for piece in pieces if piece not in (r"\{", r"\}")]
    depths = list(itertools.accumulate(braces))
    inside = " ".join(pieces)
    if all(depth >= 0 for depth in depths) and (not depths or depths[-1] == 0):
        assert [box.content for box in boxes(f"so \\boxed{{{inside} }} it is")] == [f"{inside} "]


def test_hostile_texts_are_read_in_a_time_that_grows_with_their_length_alone() -> None:
    texts = (
        "\\boxed{" * 8000,
        "\\boxed{" * 4000 + "}" * 4000,
        "```" + " " * 50_000,
        "```python" * 8000,
        "{" * 50_000,
    )

    def read(text: str) -> None:
        for parse in (parse_program, partial(parse_answer, numbers_only=False)):
            with suppress(MalformedAction):
                parse(text, max_characters=200)  # type: ignore[operator]

    assert_cheap((text[:20], partial(read, text)) for text in texts)


def test_a_program_answers_with_its_last_line() -> None:
    assert read_printed_answer(make_result("steps\n 42 \n\n", stderr="DeprecationWarning: old")) == "42"
    assert read_printed_answer(make_result("42\n", status="nonzero_exit")) is None
    assert read_printed_answer(make_result("\n")) is None
    assert read_printed_answer(make_result("9" * 401)) is None


def test_a_failure_is_told_in_one_line() -> None:
    trace = "Traceback (most recent call last):\n  File ...\nZeroDivisionError: division by zero\n"
    assert (
        failure(make_result(stderr=trace, status="nonzero_exit")) == "nonzero_exit: ZeroDivisionError: division by zero"
    )
    assert failure(make_result(status="cpu_timeout", detail="4 s of CPU")) == "cpu_timeout: 4 s of CPU"
    assert failure(make_result()) == "it printed no answer"
    assert failure(make_result("9" * 500)) == "the last line that it printed is too long"
    assert len(failure(make_result(stderr="x" * 10_000, status="nonzero_exit"))) < 200
