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
        ("0_3 4", "7", True),
        ("３ ４", "7", True),
        ("\u0663 4", "7", True),
        ("3.0 4e0", "7", True),
        ("0x3 0b100", "7", True),
        ("3\u20034", "7", True),
        ("3__0 4", "7", False),
        ("\u00b3 4", "7", False),
        ("-3 4", "7", False),
    ],
)
def test_inputs_of_programs(asked: str, expected: str, repeated: bool) -> None:
    assert repeats(stdin_case(asked, expected), stdin_case("3 4", "7"), "stdin") is repeated


@pytest.mark.parametrize(
    ("asked", "known", "repeated"),
    [
        ("0_12 1_2", "12 12", True),
        ("[ 1,02, 3, ]", "[1, 2, 3]", True),
        ("[[1, 2], [+3]]", "[[1,2],[3]]", True),
        ("(1, 2)", "[1, 2]", False),
        ("1, 2", "1 2", False),
        ("0.1000000000000000055511151231257827", "0.1", True),
        ("9007199254740993", "9007199254740992", False),
        (f"0{'7' * 5000}", "7" * 5000, True),
        (f"{'7' * 5000}8", f"{'7' * 5000}9", False),
        ("1e999999999999", "10e999999999998", True),
        ("NaN -0", "nan 0", True),
        ("1e99999999999999999999 x", "1 x", False),
        (f"0x{'f' * 5000}", f"0X{'f' * 5000}", False),
    ],
)
def test_numbers_are_the_same_when_python_reads_the_same(asked: str, known: str, repeated: bool) -> None:
    assert repeats(stdin_case(asked, "7"), stdin_case(known, "7"), "stdin") is repeated


@pytest.mark.parametrize(
    ("asked", "repeated"),
    [
        (["0003 1"], True),
        ([" 3 1"], True),
        (["\uff13 1"], True),
        (["3  1"], False),
        (["31"], False),
        ([["3 1"]], False),
    ],
)
def test_numbers_inside_the_strings_of_a_function_are_read_too(asked: list[object], repeated: bool) -> None:
    assert repeats(function_case(asked, 6), function_case(["3 1"], 6), "function") is repeated


SPELLINGS = (
    str,
    lambda number: f"{number:+d}",
    lambda number: f"{'-' if number < 0 else ''}0_0{abs(number)}",
    lambda number: f"{number:_d}",
    lambda number: str(number).translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)}),
    lambda number: str(number).translate({ord("0") + digit: 0x0660 + digit for digit in range(10)}),
    lambda number: f"{number}.000",
    lambda number: f"{number}e0",
    lambda number: f"{number}00E-2",
    hex,
)


@settings(deadline=None)
@given(data=st.data(), numbers=st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=4))
def test_no_spelling_of_a_number_makes_a_test_new(data: st.DataObject, numbers: list[int]) -> None:
    known = stdin_case(" ".join(map(str, numbers)), "7")
    spelled = [data.draw(st.sampled_from(SPELLINGS))(number) for number in numbers]
    assert repeats(stdin_case(data.draw(st.sampled_from((" ", "\n", "\t "))).join(spelled), "7"), known, "stdin")
    other = stdin_case(" ".join([*spelled[:-1], str(numbers[-1] + 1)]), "7")
    assert not repeats(other, known, "stdin")


@pytest.mark.parametrize(
    ("arguments", "value", "repeated"),
    [
        ([3], 6, True),
        ([3.0], 6.0, True),
        ([3, 0], 6, True),
        ([3, 0], 7, False),
        ([4], 6, False),
        (["3"], 6, False),
    ],
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
