"""Written-out numbers, compared exactly. Nothing is evaluated: a sum is not a number."""

import re
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_MAX_DIGITS = 400
_MAX_EXPONENT = 400
_DECIMAL_TOLERANCE = Fraction(1, 2_000_000)
"""Half a unit of the sixth decimal place."""
_RELATIVE_TOLERANCE = Fraction(1, 500_000)
NO_UNITS = frozenset(
    {"hundred", "thousand", "million", "billion", "trillion", "dozen", "half", "halves", "i", "e", "pi", "oo", "inf",
     "infinity", "or", "and", "not"}
)  # fmt: skip
"""Words after a number that change its value."""
NO_FIRST_UNITS = frozenset(
    {"squared", "cubed", "doubled", "tripled", "halved", "thirds", "quarters", "fifths", "sixths", "eighths",
     "tenths", "hundredths", "thousandths", "score", "gross", "point", "plus", "minus", "times", "multiplied",
     "divided", "over", "mod", "modulo", "more", "less", "fewer", "base", "binary", "hex", "hexadecimal", "octal",
     "to", "through", "until", "if", "unless", "else", "otherwise", "maybe", "perhaps", "either", "k", "bn"}
)  # fmt: skip
"""Words right behind a number that make another one of it, or leave it open; behind a unit they may be part of it."""
SHORT_UNITS = frozenset(
    {"cm", "mm", "km", "nm", "kg", "mg", "lb", "oz", "ft", "mph", "min", "sec", "hr", "hrs", "in", "ml", "mL", "usd", "USD",
     "AM", "PM", "am", "pm", "sq", "cu", "deg", "rad", "lbs", "yd", "mi", "qt", "pt", "tsp", "Hz", "kHz", "MHz", "kJ", "kN",
     "kW", "kWh", "kV", "kPa", "dB", "GB", "MB", "KB", "mol", "atm", "ppm", "rpm", "fps", "hp", "eV", "kph"}
)  # fmt: skip
"""Units of two or three letters; any other short word may be a product of variables, as in `2 ab`."""

_WHOLE = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_DECIMAL = rf"(?:{_WHOLE}(?:\.\d*)?|\.\d+)"
_POWER = r"(?:[eE](?P<e>[+-]?\d+)|\s?(?:\\times|\\cdot|\*)\s?10\s?\^\s?(?:\{\s?(?P<p>[+-]?\d+)\s?\}|(?P<q>[+-]?\d+)))"
_PLAIN = re.compile(rf"(?P<sign>[+-]?)\s?(?P<decimal>{_DECIMAL}){_POWER}?")
_SLASHED = re.compile(rf"(?P<sign>[+-]?)\s?(?:(?P<whole>\d+)\s)?(?P<above>{_DECIMAL})\s?/\s?(?P<below>-?{_DECIMAL})")
_STACKED = re.compile(
    rf"(?P<sign>[+-]?)\s?(?P<whole>\d+)?\s?\\frac\s?(?:\{{\s?(?P<above>-?{_DECIMAL})\s?\}}|(?P<above_digit>\d))"
    rf"\s?(?:\{{\s?(?P<below>-?{_DECIMAL})\s?\}}|(?P<below_digit>\d))"
)
_CALLED = re.compile(r"Fraction\((?P<above>-?\d+), ?(?P<below>\d+)\)")
_BRACKETED = re.compile(r"(?P<sign>[+-]?)\(\s?(?P<inner>[^()]*)\s?\)(?:\s?/\s?\(?(?P<below>-?\d+)\)?)?")
_PERCENT = re.compile(r"\s?(?:%|percent|percentage)$")
_UNIT = re.compile(
    r"(?<=[\d}.)])\s*(?P<unit>(?<=\s)[A-Za-z][A-Za-z /]*?|(?:cm|mm|km|kg|mg|ml|mL|mph))(?:\s?\^\s?\{?[23]\}?)?$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number as written. `is_decimal`: it has a decimal point or a power of ten, so that it may be rounded;
    `may_be_product`: its unit may be variables instead, as in `2 n`."""

    value: Fraction
    is_decimal: bool
    is_percent: bool
    may_be_product: bool


@lru_cache(maxsize=4096)
def number(text: str) -> Number | None:
    r"""The number that a plain answer spells; None if it is anything else.

    Whole numbers (also `1,234`), decimals, powers of ten (`1e3`, `1.5 \times 10^{3}`), fractions (`1/2`, `\frac12`,
    `1 1/2`), each with a sign, a percent sign or a unit.

    **Example** `r"-1\frac{1}{2} cm"` is -3/2; `12+7*3` is None.
    """
    if not text.isascii() or sum(character.isdigit() for character in text) > _MAX_DIGITS:
        return None
    without_percent = _PERCENT.sub("", text)
    unit = _UNIT.search(without_percent)
    unit_words = re.split("[ /]+", unit["unit"].strip()) if unit else []
    if unit and NO_UNITS.isdisjoint(map(str.casefold, unit_words)) and unit_words[0] not in NO_FIRST_UNITS:
        without_percent = without_percent[: unit.start()]
    read = _decimal(without_percent) or _fraction(without_percent)
    if read is None:
        return None
    value, is_decimal = read
    return Number(
        value=value,
        is_decimal=is_decimal,
        is_percent=bool(_PERCENT.search(text)),
        may_be_product=any(len(word) < 4 and word not in SHORT_UNITS for word in unit_words),
    )


def same_number(answer: Number, expected: Number) -> bool:
    """Whether two numbers are equal: exactly, or within half a unit of the sixth decimal place if one is a decimal.

    A percentage equals both its value and its bare number, because a question may ask for either.

    **Example** 0.333333 is 1/3, 0.3333 is not; 50% is 1/2 and is 50.
    """
    may_round = answer.is_decimal or expected.is_decimal
    for value in _readings(answer):
        for wanted in _readings(expected):
            apart = abs(value - wanted)
            if apart == 0 or (may_round and apart <= min(_DECIMAL_TOLERANCE, abs(wanted) * _RELATIVE_TOLERANCE)):
                return True
    return False


def _readings(written: Number) -> tuple[Fraction, ...]:
    return (written.value, written.value / 100) if written.is_percent else (written.value,)


def _decimal(text: str) -> tuple[Fraction, bool] | None:
    found = _PLAIN.fullmatch(text)
    if found is None:
        return None
    written = found["decimal"].replace(",", "")
    power = int(found["e"] or found["p"] or found["q"] or 0)
    if abs(power) > _MAX_EXPONENT:
        return None
    value = Fraction(written if written[-1] != "." else written[:-1]) * Fraction(10) ** power
    return _apply_sign(found["sign"], value), "." in written or power != 0


def _fraction(text: str) -> tuple[Fraction, bool] | None:
    found = _SLASHED.fullmatch(text) or _STACKED.fullmatch(text) or _CALLED.fullmatch(text)
    if found is None:
        return _parse_bracketed(text)
    parts = defaultdict(str, {name: part for name, part in found.groupdict().items() if part})
    top, bottom = (
        Fraction((parts[name] or parts[f"{name}_digit"]).replace(",", "").rstrip(".")) for name in ("above", "below")
    )
    return (_apply_sign(parts["sign"], top / bottom + int(parts["whole"] or 0)), False) if bottom else None


def _parse_bracketed(text: str) -> tuple[Fraction, bool] | None:
    """A number in one pair of brackets, possibly divided by a whole number: `-(1/2)`, `(3)/4`."""
    found = _BRACKETED.fullmatch(text)
    if found is None:
        return None
    inner = _decimal(found["inner"].strip()) or (None if "(" in found["inner"] else _fraction(found["inner"].strip()))
    if inner is None or int(found["below"] or 1) == 0:
        return None
    return _apply_sign(found["sign"], inner[0] / int(found["below"] or 1)), inner[1]


def _apply_sign(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value
