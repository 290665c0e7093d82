"""The comparisons of datasets' own graders, case by case."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.code.graders import match_printed, match_returned
from components.environments.code.problem import Grader
from tests.costs import assert_cheap


@pytest.mark.parametrize(
    ("actual", "expected", "usual", "livecodebench", "apps", "code_contests"),
    [
        ("3\n", "3", True, True, True, True),
        ("  3  \n\n", "3", True, True, True, True),
        ("1 2", "1\n2", True, False, False, True),
        ("1\n2", "1\n2", True, True, True, True),
        ("a  b", "a b", True, False, True, True),
        ("1  2", "1 2", True, True, True, True),
        ("a\n\nb", "a\nb", True, False, True, True),
        ("0.10", "0.1", True, True, True, True),
        ("0.1000001", "0.1", True, False, True, True),
        ("0.10002", "0.1", False, False, True, False),
        ("0.100004", "0.1", False, False, True, True),
        ("100000.5", "100000", False, False, True, False),
        ("3.0", "3", False, True, True, True),
        ("50000000000000000", "50000000000000001", False, False, True, True),
        ("YES", "Yes", False, False, False, True),
        ("NO\nYES", "YES\nNO\nNO", False, False, True, False),
        ("2 1", "1 2", False, False, True, False),
        ("3 4", "3", False, False, False, False),
        ("", "3", False, False, False, False),
        ("", "", True, True, True, True),
        ("nan", "nan", True, True, True, True),
        ("x", "3", False, False, False, False),
        ("1e400", "1e401", False, False, False, False),
        ("sNaN", "1", False, False, False, False),
    ],
)
def test_printed_outputs(
    actual: str, expected: str, usual: bool, livecodebench: bool, apps: bool, code_contests: bool
) -> None:
    wanted: dict[Grader, bool] = {
        "usual": usual,
        "exact": usual,
        "livecodebench": livecodebench,
        "apps": apps,
        "code_contests": code_contests,
    }
    assert {grader: match_printed(grader, actual, expected) for grader in wanted} == wanted


def test_returned_values_are_equal_in_python_or_close_by_the_usual_rule() -> None:
    graders: tuple[Grader, ...] = ("exact", "livecodebench", "apps")
    for grader in graders:
        assert match_returned(grader, [1, 2.0], [1.0, 2])
        assert match_returned(grader, 1, True)
        assert not match_returned(grader, 0.30000000000000004, 0.3)
        assert not match_returned(grader, "1", 1)
    assert match_returned("usual", 0.30000000000000004, 0.3)
    assert not match_returned("usual", 1, True)


@given(st.text(max_size=60), st.text(max_size=60))
def test_an_output_equals_itself_under_every_grader(text: str, other: str) -> None:
    graders: tuple[Grader, ...] = ("usual", "livecodebench", "apps", "code_contests")
    for grader in graders:
        assert match_printed(grader, text, text)
        match_printed(grader, text, other)


def test_long_outputs_are_compared_in_linear_time() -> None:
    graders: tuple[Grader, ...] = ("usual", "livecodebench", "apps", "code_contests")
    long = [unit * (100_000 // len(unit)) for unit in ("1.5\n", "9 ", "-1e5 ", "x\n", "9", "\n")]
    assert_cheap(
        (f"{grader} {text[:4]!r}", partial(match_printed, grader, text + "1", text + "2"))
        for grader in graders
        for text in long
    )
