"""Comparison of outputs as the authors of a dataset score them.

Each rule was read in the authors' published grader; differences are said with it.

| grader | programs | functions |
|---|---|---|
| usual | tokens; decimals within 1e-6 (`checker.py`) | JSON values; floats within 1e-6 |
| exact | as usual | equal in Python: 2 == 2.0, True == 1 |
| truth | as usual | both true, or both false, in Python: "False" is true |
| livecodebench | stripped lines, equal as text or as exact decimals | as exact |
| apps | the sets of words of all lines, or numbers close to each other | as exact |
| code_contests | words without case; numbers within 1e-5 | none in this dataset |

A returned value arrives as JSON, so a tuple is a list; the authors' graders tell them apart inside other values.
"""

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from components.environments.code.checker import outputs_match, values_match
from components.environments.code.problem import Grader

_CONTESTS_TOLERANCE = 1e-5
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 400
"""In characters; longer words are compared only as text."""


def livecodebench_outputs_match(actual: str, expected: str) -> bool:
    """LiveCodeBench's rule (`testing_util.py`): as many lines, each equal once stripped, or word by word the same decimals.

    There is no tolerance: 0.1 is 0.10 and 1e-1, not 0.1000001. White space inside a line of other words counts.
    """
    given, wanted = (text.strip().split("\n") for text in (actual, expected))
    return len(given) == len(wanted) and all(map(_lines_match, given, wanted))


def apps_outputs_match(actual: str, expected: str) -> bool:
    """APPS' rule (`testing_util.py`), which ends in a comparison of sets: each line is the set of its words, the output the set
    of its lines, without order and repetitions. Also equal: lines of one number each that numpy finds close, and lines whose
    numbers are equal at three decimals.

    **Example** "NO\\nYES" matches "YES\\nNO\\nNO". Train with `comparison: usual` where this could be exploited.
    """
    given, wanted = ([line.split() for line in text.splitlines() if line.strip()] for text in (actual, expected))
    if _as_sets(given) == _as_sets(wanted):
        return True
    given_numbers, wanted_numbers = _numbers(given), _numbers(wanted)
    if given_numbers is None or wanted_numbers is None:
        return False
    return _all_close(given_numbers, wanted_numbers) or _as_rounded_sets(given_numbers) == _as_rounded_sets(
        wanted_numbers
    )


def contests_outputs_match(actual: str, expected: str) -> bool:
    """CodeContests' rule (`tester_sandboxer.cc`): words without case; two numbers may differ by less than 1e-5."""
    wanted = expected.lower().split()
    given = actual.lower().split(maxsplit=len(wanted))
    return given == wanted or (len(given) == len(wanted) and all(map(_words_match, given, wanted)))


def values_equal(actual: Any, expected: Any) -> bool:
    """Whether two JSON values are equal in Python."""
    return bool(actual == expected)


_OUTPUTS: Mapping[Grader, Callable[[str, str], bool]] = {
    "livecodebench": livecodebench_outputs_match,
    "apps": apps_outputs_match,
    "code_contests": contests_outputs_match,
}


def match_printed(grader: Grader, actual: str, expected: str) -> bool:
    """Whether a program printed what `grader` accepts for `expected`."""
    return _OUTPUTS.get(grader, outputs_match)(actual, expected)


def match_returned(grader: Grader, actual: Any, expected: Any) -> bool:
    """Whether a function returned what `grader` accepts for `expected`; both are JSON values."""
    if grader == "truth":
        return bool(actual) == bool(expected)
    return values_match(actual, expected) if grader == "usual" else values_equal(actual, expected)


def _lines_match(actual: str, expected: str) -> bool:
    given, wanted = actual.strip(), expected.strip()
    if given == wanted:
        return True
    try:
        return [Decimal(word) for word in given.split()] == [Decimal(word) for word in wanted.split()]
    except (InvalidOperation, ValueError):  # a word that is no number, or a signaling NaN
        return False


def _words_match(actual: str, expected: str) -> bool:
    if actual == expected:
        return True
    given, wanted = _number(actual), _number(expected)
    return given is not None and wanted is not None and abs(given - wanted) < _CONTESTS_TOLERANCE


def _number(word: str) -> float | None:
    return float(word) if len(word) <= _LONGEST_NUMBER and _NUMBER.fullmatch(word) else None


def _numbers(lines: list[list[str]]) -> list[list[float]] | None:
    """The numbers of all lines, None if a word is none."""
    numbers = [[_number(word) for word in line] for line in lines]
    if any(number is None or not math.isfinite(number) for line in numbers for number in line):
        return None
    return [[number for number in line if number is not None] for line in numbers]


def _as_sets(lines: list[list[str]]) -> frozenset[frozenset[str]]:
    return frozenset(map(frozenset, lines))


def _as_rounded_sets(lines: list[list[float]]) -> frozenset[frozenset[float]]:
    return frozenset(frozenset(round(number, 3) for number in line) for line in lines)


def _all_close(actual: list[list[float]], expected: list[list[float]]) -> bool:
    """Whether both have one number on each line, and each is within 1e-8 and 1e-5 of the expected one."""
    if len(actual) != len(expected) or any(len(line) != 1 for line in (*actual, *expected)):
        return False
    return all(
        abs(one[0] - other[0]) <= 1e-8 + 1e-5 * abs(other[0]) for one, other in zip(actual, expected, strict=True)
    )
