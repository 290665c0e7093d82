"""Written-out numbers against fractions and decimals."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.math.normalization import plain
from components.environments.math.numbers import number, same_number

INTEGERS = st.integers(-(10**12), 10**12)


def value(text: str) -> Fraction:
    read = number(plain(text))
    assert read is not None, text
    return read.value


@given(INTEGERS)
def test_whole_numbers_in_every_spelling(wanted: int) -> None:
    for text in (
        f"{wanted}",
        f"{wanted:,}",
        f"${wanted}$",
        f"{wanted}.",
        f"{wanted}.0",
        f"{wanted} cm",
        rf"{wanted}^\circ",
        f"{wanted}cm",
        f"{wanted} km/h",
        rf"{wanted} \mathrm{{~m}} / \mathrm{{s}}^2",
    ):
        assert value(text) == wanted
    assert value(f"{wanted:,}".replace(",", "{,}")) == wanted
    assert value(f"{wanted:,}".replace(",", r"\,")) == wanted


@given(INTEGERS, st.integers(1, 10**6))
def test_fractions_in_every_spelling(above: int, below: int) -> None:
    wanted = Fraction(above, below)
    sign, size = ("-" if above < 0 else ""), abs(above)
    spellings = [f"{above}/{below}", rf"\frac{{{above}}}{{{below}}}", rf"{sign}\dfrac{{{size}}}{{{below}}}"]
    spellings += [f"Fraction({above}, {below})", f"{sign}({size}/{below})", rf"$\tfrac{{{above}}} {{{below}}}$"]
    assert [value(text) for text in spellings] == [wanted] * len(spellings)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=8))
def test_decimals_are_exact(wanted: Decimal) -> None:
    exact = Fraction(wanted)
    for text in (f"{wanted:f}", f"{wanted:E}", f"{wanted:,f}", rf"{wanted * 1000:f} \times 10^{{-3}}"):
        assert value(text) == exact


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (r"-1\frac{1}{2}", Fraction(-3, 2)),
        ("2 3/4", Fraction(11, 4)),
        (r"\frac34", Fraction(3, 4)),
        (".5", Fraction(1, 2)),
    ],
)
def test_other_spellings(text: str, wanted: Fraction) -> None:
    assert value(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "x", "1+1", "2*3", "2^10", "10!", "1/0", r"\frac{1}{0}", "1,23", "1.2.3", "--1", "5 million", "3 dozen", "1e999999",
     "9" * 401, "1 2", "2 i", "2 pi", "5 or 6", "sqrt(4)", "(1,2)", "١٢"],
)  # fmt: skip
def test_what_is_no_number(text: str) -> None:
    assert number(plain(text)) is None


@given(INTEGERS, INTEGERS)
def test_different_whole_numbers_are_never_the_same(one: int, other: int) -> None:
    for spelling in ("{}", "{}.0", "{:.9f}"):
        first, second = number(spelling.format(one)), number(str(other))
        assert first is not None
        assert second is not None
        assert same_number(first, second) == (one == other)


@given(st.integers(-999, 999), st.integers(1, 999), st.integers(1, 12))
def test_rounded_decimals_count_from_six_places_on(above: int, below: int, places: int) -> None:
    exact = Fraction(above, below)
    written, wanted = number(f"{above / below:.{places}f}"), number(f"{above}/{below}")
    assert written is not None
    assert wanted is not None
    if written.value == exact or (places >= 9):
        assert same_number(written, wanted)
    if abs(written.value - exact) > Fraction(1, 2_000_000):
        assert not same_number(written, wanted)


def test_percentages_are_their_value_and_their_number() -> None:
    half = number("50%")
    assert half is not None
    for text, same in (
        ("0.5", True),
        ("1/2", True),
        ("50", True),
        ("50 percent", True),
        ("5", False),
        ("0.005", False),
    ):
        other = number(text)
        assert other is not None
        assert same_number(half, other) == same_number(other, half) == same
