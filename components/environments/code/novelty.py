"""Detection of tests that repeat a given test in another spelling."""

import json
import math
import re
from decimal import Decimal
from typing import Any

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
    return begins_alike(case.given, given.given) and agrees(case.expected, given.expected, kind)


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


def _words_alike(word: str, other: str) -> bool:
    if word == other:
        return True
    number, known = _number(word), _number(other)
    if number is None or known is None:
        return False
    if isinstance(number, Decimal) and isinstance(known, Decimal):
        return number == known
    near, known_near = float(number), float(known)
    return near == known_near or (math.isnan(near) and math.isnan(known_near))


def _number(word: str) -> Decimal | float | None:
    """The number that Python reads from `word` with `int`, `float`, or as a literal of another base; integers are exact. None
    for other text.

    **Example** "1_2", "0012" and fullwidth digits are 12; "1.20e1" is the float 12; "12a" is None.
    """
    try:
        if len(word) <= _LONGEST_OTHER_BASE and _OTHER_BASE.fullmatch(word):
            return Decimal(int(word, 0))
        return Decimal(word) if _WHOLE.fullmatch(word) else float(word)
    except (ValueError, ArithmeticError):  # decimal raises ArithmeticError
        return None
