"""A given test in other words is no test of the tester's own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.code.grammar import function_case, stdin_case
from components.environments.code.novelty import repeats

LINES = st.lists(st.text("ab 0123", max_size=5), min_size=1, max_size=3).map("\n".join)


@pytest.mark.parametrize(
    ("asked", "expected", "repeated"),
    [
        ("3 4", "7", True),
        ("3 4", "8", True),
        ("03  +4", "7", True),
        ("3\n4\n\n", "7.0", False),
        ("3 4\n9", "7", True),
        ("3 4 9", "16", False),
        ("3", "7", False),
        ("4 3", "7", False),
        ("3x 4", "7", False),
    ],
)
def test_inputs_of_programs(asked: str, expected: str, repeated: bool) -> None:
    assert repeats(stdin_case(asked, expected), stdin_case("3 4", "7"), "stdin") is repeated


@pytest.mark.parametrize(
    ("arguments", "value", "repeated"),
    [([3], 6, True), ([3.0], 6.0, True), ([3, 0], 6, True), ([3, 0], 7, False), ([4], 6, False), (["3"], 6, False)],
)
def test_arguments_of_functions(arguments: list[object], value: object, repeated: bool) -> None:
    assert repeats(function_case(arguments, value), function_case([3], 6), "function") is repeated


@settings(deadline=None)
@given(text=LINES, more=LINES, output=st.text("ab1", min_size=1, max_size=3))
def test_more_input_with_the_same_output_is_a_repetition_and_with_another_one_is_none(
    text: str, more: str, output: str
) -> None:
    known = stdin_case(text, output)
    assert repeats(stdin_case(f"{text}\n{more}", output), known, "stdin")
    assert not repeats(stdin_case(f"{text}\nx{more}", f"{output}x"), known, "stdin")
