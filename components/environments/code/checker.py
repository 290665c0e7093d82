"""Comparison of actual and expected outputs, on the host: no expected output ever enters a box."""

import math
import re
from decimal import Decimal
from typing import Any

TOLERANCE = 1e-6
"""Of a float: absolute, or relative to an expected value above 1."""
_LONGEST_NUMBER = 400
"""In characters; longer tokens are compared only as text."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""No two parts can match the same digit, so a match takes linear time."""


def outputs_match(actual: str, expected: str) -> bool:
    """Whether a program printed the expected tokens in order, white space aside.

    An expected decimal number with a point or an exponent matches any decimal number within `TOLERANCE`; all other tokens must
    be equal.

    **Example** "3\\n0.3333333" matches "3 0.33333333"; "3.0" does not match "3".
    """
    wanted = expected.split()
    given = actual.split(maxsplit=len(wanted))  # at most one token too many, however many were printed
    return given == wanted or (len(given) == len(wanted) and all(map(_tokens_match, given, wanted)))


def values_match(actual: Any, expected: Any) -> bool:
    """Whether a function returned the expected value; both are JSON values.

    Lists are compared item by item and objects key by key; true, false and null equal only themselves; numbers match if equal,
    or within `TOLERANCE` if the expected one is a float.

    **Example** 2 and 2.0 match, [1, 2.0000001] matches [1, 2.0]; true does not match 1, "1" does not match 1.
    """
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(values_match, actual, expected))
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(values_match(actual[key], value) for key, value in expected.items())
        )
    if isinstance(expected, bool | str | None):
        return type(actual) is type(expected) and bool(actual == expected)
    if isinstance(actual, bool) or not isinstance(actual, int | float | Decimal):
        return False
    return actual == expected or (
        isinstance(actual, int | float) and isinstance(expected, float) and _close(actual, expected)
    )


def _tokens_match(actual: str, expected: str) -> bool:
    if actual == expected:
        return True
    if not ("." in expected or "e" in expected or "E" in expected) or max(len(actual), len(expected)) > _LONGEST_NUMBER:
        return False
    both_numbers = _NUMBER.fullmatch(actual) and _NUMBER.fullmatch(expected)
    return both_numbers is not None and _close(float(actual), float(expected))


def _close(actual: float, expected: float) -> bool:
    try:
        difference = abs(actual - expected)
    except OverflowError:  # an integer beyond all floats
        return False
    return math.isfinite(expected) and difference <= TOLERANCE * max(1.0, abs(expected))
