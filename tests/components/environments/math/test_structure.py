"""Tuples, intervals, sets and lists, with integer parts, against plain Python collections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.math.structure import is_too_deep, same_answer, take_apart

NUMBERS = st.lists(st.integers(-9, 99), min_size=2, max_size=5)
ENDS = st.sampled_from(["()", "[]", "(]", "[)"])


def same(answer: str, expected: str) -> bool:
    return same_answer(answer, expected, lambda one, other: one.strip() == other.strip())


def join_numbers(numbers: list[int], ends: str = "") -> str:
    inner = ", ".join(map(str, numbers))
    return f"{ends[:-1]}{inner}{ends[-1:]}" if len(ends) < 4 else rf"\{{{inner}\}}"


@given(NUMBERS, NUMBERS, ENDS, ENDS)
def test_sequences_keep_order_and_brackets(one: list[int], other: list[int], ends: str, other_ends: str) -> None:
    assert same(join_numbers(one, ends), join_numbers(other, other_ends)) == ((one, ends) == (other, other_ends))
    assert same(join_numbers(one, ends), join_numbers(one, ends))


@given(NUMBERS, st.randoms(use_true_random=False))
def test_sets_and_lists_have_no_order(numbers: list[int], rng: object) -> None:
    shuffled = sorted(numbers, key=lambda _: rng.random())  # type: ignore[attr-defined]
    braces = r"\{\}"
    for one in (join_numbers(numbers), join_numbers(numbers, braces)):
        for other in (join_numbers(shuffled), join_numbers(shuffled, braces)):
            assert same(one, other)


@given(NUMBERS, NUMBERS)
def test_different_sets_differ(one: list[int], other: list[int]) -> None:
    assert same(join_numbers(one, r"\{\}"), join_numbers(other, r"\{\}")) == (set(one) == set(other))


@pytest.mark.parametrize(
    ("answer", "expected", "equal"),
    [
        ("1, 2", "(1,2)", True),
        ("2, 1", "(1,2)", False),
        ("(2, 1)", "1,2", True),
        ("[1, 2]", r"\{2,1\}", True),
        ("(1, 2)", r"\{2,1\}", False),
        (r"\{1, 2\}", "(1,2)", False),
        (r"\{5\}", "5", True),
        ("5", r"\{5\}", True),
        ("5, 6", "5", False),
        (r"\{2, 2\}", "2", False),
        ("2, 9, 9", "2, 2, 9", False),
        ("2, 9", "2, 2, 9", False),
        ("9, 2, 2", "2, 2, 9", True),
        (r"2, 2", r"\{2\}", False),
        (r"\{2, 2, 9\}", r"\{2, 9\}", True),
        (r"[5,9)\cup(1,2)", r"(1,2) \cup [5,9)", True),
        (r"[5,9)\cup(1,2]", r"(1,2) \cup [5,9)", False),
        ("(1,2)", r"(1,2) \cup [5,9)", False),
        (r"\pm 2", "-2, 2", True),
        (r"1 \pm x", "1 +x, 1 -x", True),
        ("(1, (2, 3))", "(1,(2,3))", True),
        ("(1,2), (3,4)", "(3,4), (1,2)", True),
        ("(1,2), (3,4)", "(3,4), (2,1)", False),
        ("1 and 2", "2 or 1", True),
    ],
)
def test_mixed_spellings(answer: str, expected: str, equal: bool) -> None:
    assert same(answer, expected) == equal


def test_brackets_inside_a_formula_are_no_structure() -> None:
    for text in ("(x+1)(x+2)", r"\frac{1}{2}", "1,234", "f(1, 2)", "(x)"):
        assert take_apart(text).kind == "scalar", text


def test_deep_or_unbalanced_brackets_are_refused() -> None:
    assert is_too_deep("(" * 25 + ")" * 25)
    assert is_too_deep("(1")
    assert is_too_deep(")1(")
    assert not is_too_deep("(" * 24 + ")" * 24)
