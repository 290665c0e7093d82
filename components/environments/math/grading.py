"""The comparison of two plain answers in order of cost: as text, as numbers, part by part, and only then as formulas."""

import re

from components.environments.math.normalization import split_variable, words
from components.environments.math.numbers import SHORT_UNITS, Number, number, same_number
from components.environments.math.structure import SameScalar, is_too_deep, same_answer
from components.environments.math.units import SHORT_WORDS, is_unit, share_unit, units_differ

MAX_FORMULA_CHARACTERS = 400
_MAX_OPERATORS = 80
_LARGE = re.compile(r"\^[ {(+-]*[0-9]{6}|!!|[0-9]{4}[ )}]*!")
"""Exponents of six digits, repeated factorials, and factorials of four digits."""


_GROUPED = re.compile(r"(?<![\d.,/^_])(?<![\d/] )\d{1,3}(?: \d{3})+(?! ?[\d/])")
_FREE_SPACE = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
"""White space that separates no two digits: `1 2` is not 12, and `1 1/2` not 11/2."""
_DIGIT_PAIR = re.compile(r"\\(?:frac|binom) ?\d ?\d")
_APART = re.compile(r"(?:^|[^\w^.])\d+(?:\.\d+)? \d")
"""Two numbers with nothing between them, which algebra would multiply or join."""
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?: ?[ap]\.?m)?", re.IGNORECASE)


_LETTERS = re.compile(r"(?<=[\d}).\s])(?P<words>[A-Za-z][A-Za-z /]*)(?:\s?\^\s?\{?[23]\}?)?\Z")
_VOWEL = re.compile("[aeiou]", re.IGNORECASE)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


class NeedsFormulas(Exception):
    """Only algebra can tell whether two answers are equal: they differ as text and are not both numbers."""


def compare_answers(answer: str, expected: str, *, formulas: SameScalar | None = None) -> bool:
    """Whether two plain answers are equal. `formulas` compares by algebra; without it the need for algebra raises
    NeedsFormulas."""

    def same(one: str, other: str) -> bool:
        return _same_scalar(one, other, formulas)

    if is_too_deep(answer) or is_too_deep(expected):
        return bool(expected) and _FREE_SPACE.sub("", answer) == _FREE_SPACE.sub("", expected)
    return same_answer(answer, expected, same)


def is_too_large(text: str) -> bool:
    """Whether a formula is too long for an answer, or has a power or factorial too large to be written out.

    **Example** `2^{2020}` is not; `10^{10^{10}}` and `9999!` are.
    """
    if len(text) > MAX_FORMULA_CHARACTERS or sum(text.count(mark) for mark in "+-*/^_!=<>,") > _MAX_OPERATORS:
        return True
    text = text.replace("**", "^")
    return bool(_LARGE.search(text)) or any(_is_stacked(before) for before in text.split("^")[1:-1])


def _same_scalar(answer: str, expected: str, formulas: SameScalar | None) -> bool:
    (name, given_value), (wanted_name, wanted_value) = split_variable(answer), split_variable(expected)
    if name and wanted_name and name != wanted_name:
        return False
    if name == wanted_name or "=" not in (expected if name else answer):
        answer, expected = given_value, wanted_value
    if units_differ(answer, expected):
        return False
    answer, expected = _ungroup(answer), _ungroup(expected)
    if _FREE_SPACE.sub("", answer) == _FREE_SPACE.sub("", expected):
        return bool(expected.strip())
    clock, wanted_clock = _clock(answer), _clock(expected)
    if clock and wanted_clock:
        return clock == wanted_clock
    wanted, given = number(expected), number(answer)
    if wanted is not None and given is not None and share_unit(answer, expected):
        return same_number(given, wanted)
    if wanted is not None and not _multiplies(wanted, expected):
        return given is not None and not _multiplies(given, answer) and same_number(given, wanted)
    if wanted is not None and given is not None and not _multiplies(given, answer):
        return False
    if _APART.search(_DIGIT_PAIR.sub("", answer)) or _APART.search(_DIGIT_PAIR.sub("", expected)):
        return False
    if words(expected) is not None or words(answer) is not None:
        return words(expected) == words(answer)
    if not answer or is_too_large(answer) or is_too_large(expected):
        return False
    if formulas is None:
        raise NeedsFormulas
    return formulas(answer, expected)


def _multiplies(written: Number, answer: str) -> bool:
    """Whether letters behind a number are variables, neither unit nor noun: in `5 x` and `5 abc`, not in `5 m` or `5 men`."""
    found = _LETTERS.search(answer) if written.may_be_product else None
    words = re.split("[ /]+", found["words"].strip()) if found else []
    return any(
        (len(word) <= 2 and word not in SHORT_WORDS)
        or (len(word) == 3 and (word in _ALPHABET or _VOWEL.search(word) is None))
        for word in words
        if not is_unit(word) and word not in SHORT_UNITS
    ) or words[-1:] == ["a"]


def _ungroup(text: str) -> str:
    """`text` with digits in groups of three as one number: `1 234 cm` is `1234 cm`."""
    return _GROUPED.sub(lambda found: found[0].replace(" ", ""), text)


def _clock(text: str) -> tuple[int, ...]:
    """Hours, minutes and seconds of a time such as `1:30` or `01:30 pm`; empty for anything else."""
    found = _CLOCK.fullmatch(text)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def _is_stacked(power: str) -> bool:
    """Whether the text between two `^` makes the second a power within the exponent of the first."""
    return power.count("{") + power.count("(") > power.count("}") + power.count(")") or not power.strip(" 0123456789")
