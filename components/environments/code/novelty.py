"""Detection of tests that repeat a given test in another spelling."""

import json
import re
from decimal import Decimal
from typing import Any, NamedTuple

from components.environments.code.problem import Case, Kind
from components.environments.code.programs import agrees

_SEPARATORS = r"\s,;:()\[\]{}\"'"
_STDIN_TOKEN = re.compile(rf"[^{_SEPARATORS}]+|[,;:()\[\]{{}}\"']")
_WORD = re.compile(rf"([^{_SEPARATORS}]+)")
_WHOLE = re.compile(r"[+-]?\d+(?:_\d+)*")
"""The grammar of `int`: digits of any script, grouped by single underscores."""
_OTHER_BASE = re.compile(r"[+-]?0(?:[xX][0-9a-fA-F_]+|[oO][0-7_]+|[bB][01_]+)")
_LONGEST_OTHER_BASE = 400
"""In characters; decimal numbers are parsed in linear time at any length."""
_CLOSING = frozenset(")]}")


def repeats(case: Case, given: Case, kind: Kind) -> bool:
    """Whether `case` repeats `given`: the same input, or a longer one that begins with it and has the same output.

    A program that reads "3" also reads "03", "+3", "0_3", "3e0" and "3" with a further line, so a tester could submit a given
    test as a new one. Numbers are equal if Python reads the same value: integers exactly, others as floats.

    **Example** "03 4 => 7" and "3 4 9 => 7" repeat the given test "3 4 => 7"; "3 4 9 => 16" does not.
    """
    if case.given == given.given:
        return True
    begins_alike = _arguments_begin_alike if kind == "function" else _lines_begin_alike
    return begins_alike(case.given, given.given) and agrees(case.expected, given, kind)


def _lines_begin_alike(asked: str, known: str) -> bool:
    """Whether a program given `asked` reads the tokens of `known` first."""
    asked_tokens, known_tokens = _stdin_tokens(asked), _stdin_tokens(known)
    return len(asked_tokens) >= len(known_tokens) and all(map(_words_alike, asked_tokens, known_tokens))


def _stdin_tokens(text: str) -> list[str]:
    """Words and punctuation; "[1, 2]", "[1,2]" and "[1,2,]" have the same ones."""
    tokens = _STDIN_TOKEN.findall(text)
    following = (*tokens, "")[1:]
    return [token for token, after in zip(tokens, following, strict=True) if token != "," or after not in _CLOSING]


def _arguments_begin_alike(asked: str, known: str) -> bool:
    asked_values, known_values = json.loads(asked), json.loads(known)
    return len(asked_values) >= len(known_values) and all(map(_values_alike, asked_values, known_values))


def _values_alike(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal in Python, with numbers inside strings compared by value."""
    if isinstance(value, str) and isinstance(other, str):
        pieces, others = (_WORD.split(text.strip()) for text in (value, other))
        return len(pieces) == len(others) and all(map(_words_alike, pieces, others))
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_values_alike, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_values_alike(value[key], other[key]) for key in other)
    return bool(value == other)


class _Number(NamedTuple):
    """A number as Python reads it: its exact value, and the nearest float."""

    is_whole: bool
    exact: Decimal
    near: float


def _words_alike(word: str, other: str) -> bool:
    if word == other:
        return True
    number, known = _number(word), _number(other)
    if number is None or known is None:
        return False
    if number.is_whole and known.is_whole:
        return number.exact == known.exact
    both_nan = number.near != number.near and known.near != known.near
    return number.near == known.near or both_nan


def _number(word: str) -> _Number | None:
    """The number that Python reads from `word` with `int`, `float`, or as a literal of another base; None for other text.

    **Example** "1_2", "0012" and fullwidth digits are 12; "1.20e1" is 12 too, and not whole; "12a" is None.
    """
    try:
        if len(word) <= _LONGEST_OTHER_BASE and _OTHER_BASE.fullmatch(word):
            exact = Decimal(int(word, 0))
            return _Number(is_whole=True, exact=exact, near=float(exact))
        return _Number(is_whole=_WHOLE.fullmatch(word) is not None, near=float(word), exact=Decimal(word))
    except (ValueError, ArithmeticError):  # decimal raises ArithmeticError
        return None
