"""The checker against an oracle that works with exact fractions, and against ten thousand damaged answers."""

import copy
import json
import time
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.code.checker import TOLERANCE, outputs_match, values_match
from components.machine.gc_tuning import gc_relaxed
from tests.costs import assert_cheap

NUMBERS = st.integers(-(10**6), 10**6).map(str) | st.decimals(-1000, 1000, places=4).map(str)
TOKENS = st.lists(NUMBERS | st.text("abXY.-+e1", min_size=1, max_size=4), max_size=6)
SPACES = st.text(" \n\t", min_size=1, max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5, width=16) | st.text("ab1", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=6,
)


def is_decimal(token: str) -> bool:
    """A sign, digits with at most one point, and an optional exponent, spelled out by hand."""
    mantissa, _, exponent = token.replace("E", "e").partition("e")
    if "e" in token.replace("E", "e") and not is_whole(exponent):
        return False
    digits = mantissa[1:] if mantissa[:1] in ("+", "-") else mantissa
    return digits.count(".") <= 1 and is_digits(digits.replace(".", "", 1))


def is_whole(token: str) -> bool:
    return is_digits(token[1:] if token[:1] in ("+", "-") else token)


def is_digits(token: str) -> bool:
    return token != "" and all(character in "0123456789" for character in token)


def tokens_agree(actual: str, expected: str) -> bool:
    if actual == expected:
        return True
    if not (is_decimal(actual) and is_decimal(expected)) or set(expected) <= set("+-0123456789"):
        return False
    difference = abs(Fraction(actual) - Fraction(expected))
    return difference <= Fraction(TOLERANCE) * max(Fraction(1), abs(Fraction(expected)))


def values_agree(actual: Any, expected: Any) -> bool:
    if isinstance(expected, list) or isinstance(actual, list):
        pair = isinstance(expected, list) and isinstance(actual, list) and len(actual) == len(expected)
        return pair and all(values_agree(*both) for both in zip(actual, expected, strict=True))
    if isinstance(expected, dict) or isinstance(actual, dict):
        pair = isinstance(expected, dict) and isinstance(actual, dict) and sorted(actual) == sorted(expected)
        return pair and all(values_agree(actual[key], expected[key]) for key in expected)
    if type(expected) in (int, float) and type(actual) in (int, float):
        exact = Fraction(actual) == Fraction(expected)
        near = abs(Fraction(actual) - Fraction(expected)) <= Fraction(TOLERANCE) * max(1, abs(Fraction(expected)))
        return exact or (type(expected) is float and near)
    return type(actual) is type(expected) and repr(actual) == repr(expected)


@settings(deadline=None, max_examples=300)
@given(tokens=TOKENS, spaces=st.lists(SPACES, min_size=14, max_size=14))
def test_white_space_between_tokens_means_nothing(tokens: list[str], spaces: list[str]) -> None:
    spaced = [part for token, space in zip(tokens, spaces, strict=False) for part in (token, space)]
    assert outputs_match("".join([spaces[-1], *spaced]), " ".join(tokens))
    assert not outputs_match(" ".join([*tokens, "x"]), " ".join(tokens))


@settings(deadline=None, max_examples=500)
@given(actual=NUMBERS | st.text("012.-+eE", min_size=1, max_size=6), expected=NUMBERS | st.text("012.-+eE", min_size=1))
def test_two_tokens_match_exactly_when_the_oracle_says_so(actual: str, expected: str) -> None:
    assert outputs_match(actual, expected) == tokens_agree(actual, expected)


@settings(deadline=None, max_examples=300)
@given(value=st.floats(-1e9, 1e9), factor=st.sampled_from([0.0, 0.5, 0.9, 1.1, 3.0, -0.9, -1.1]))
def test_floats_match_within_the_tolerance_and_no_further(value: float, factor: float) -> None:
    moved = value + factor * TOLERANCE * max(1.0, abs(value))
    assert outputs_match(repr(moved), repr(value)) == tokens_agree(repr(moved), repr(value))
    assert values_match(moved, value) == values_agree(moved, value)


@settings(deadline=None, max_examples=500)
@given(actual=VALUES, expected=VALUES)
def test_two_values_match_exactly_when_the_oracle_says_so(actual: Any, expected: Any) -> None:
    assert values_match(actual, expected) == values_agree(actual, expected)
    assert values_match(copy.deepcopy(expected), expected)


@pytest.mark.parametrize(
    ("actual", "expected", "matches"),
    [
        ("3\n0.3333333", "3 0.33333333", True),
        ("3.0", "3", False),
        ("3", "3.0", True),
        ("1e-7", "0.0", True),
        ("nan", "nan", True),
        ("inf", "1e999", False),
        ("1e999", "1.0", False),
        ("1_0.0", "10.0", False),
        ("٣.0", "3.0", False),
        ("YES", "Yes", False),
        ("", "", True),
        ("", "0", False),
        ("1 2", "12", False),
    ],
)
def test_known_pairs_of_outputs(actual: str, expected: str, matches: bool) -> None:
    assert outputs_match(actual, expected) is matches


@pytest.mark.parametrize(
    ("actual", "expected", "matches"),
    [
        (True, 1, False),
        (1, True, False),
        (0, False, False),
        (2.0, 2, True),
        (2, 2.0, True),
        (2.0000001, 2, False),
        (10**400, 1.5, False),
        (1.5, 10**400, False),
        (float("nan"), 1.5, False),
        (float("inf"), 1.5, False),
        (None, 0, False),
        (None, None, True),
        ("1", 1, False),
        ([1, 2], [1, 2, 3], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([], {}, False),
    ],
)
def test_known_pairs_of_values(actual: Any, expected: Any, matches: bool) -> None:
    assert values_match(actual, expected) is matches


def damage(text: str, rng: Random) -> str:
    """`text` with up to five characters changed, doubled, dropped or moved."""
    characters = list(text)
    for _ in range(rng.randrange(6)):
        place = rng.randrange(len(characters) + 1)
        pieces = ["", "e", ".", "-", " ", "\n", "9" * 400, "\u0660", "\x00", "[", "nan", "1e400", '"', "\ud800"]
        characters[place : place + rng.randrange(3)] = [rng.choice(pieces) * rng.randrange(1, 3)]
    return "".join(characters)


def test_ten_thousand_damaged_answers_neither_crash_nor_take_a_second() -> None:
    rng, slowest, num_matching = Random(0), 0.0, 0
    expected = "12 -3.25e2 0.001 word 99999999999999999999 [1, 2.5]"
    value = json.loads('{"a": [1, 2.5, null, true, "x"], "b": {"c": -1e3}}')
    with gc_relaxed():
        for _ in range(10_000):
            started = time.thread_time()
            num_matching += outputs_match(damage(expected, rng), expected)
            try:
                returned = json.loads(damage(json.dumps(value), rng))
            except ValueError:
                returned = None
            num_matching += values_match(returned, value)
            slowest = max(slowest, time.thread_time() - started)
    assert slowest < 1.0
    assert 1000 < num_matching < 9000


@pytest.mark.parametrize(
    "actual", ["1" * 65_536 + "x", "1." + "1" * 65_536 + "x", "1e" + "9" * 65_536, ". " * 32_768, "-" * 65_536]
)
def test_a_long_answer_is_judged_in_less_than_a_second(actual: str) -> None:
    def judge() -> None:
        assert not outputs_match(actual, "1.5 " * 30_000)
        assert not outputs_match(actual, "1.5")

    assert_cheap([("judge", judge)], most_cpu_seconds=1.0)
