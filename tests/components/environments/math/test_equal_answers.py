"""A table of answers: reference, answer, whether they are equal."""

import pytest

from components.environments.math.units import unit_of, units_differ
from components.environments.math.verifier import verdict
from tests.costs import assert_cheap

TABLE = (
    # spaces and thousands
    ("12", "1 2", False),
    ("1 2", "12", False),
    ("1 2", "1 2", True),
    ("12", " 12 ", True),
    ("1234", "1,234", True),
    ("1234", "1 234", True),
    ("1,234,567", "1 234 567", True),
    ("1 234", "1234", True),
    ("1234.5", "1 234.5", True),
    ("1234", r"1\,234", True),
    ("1234", "12 34", False),
    ("1234", "1 2 3 4", False),
    ("1234", "1,2,3,4", False),
    ("1234 cm", "1 234 cm", True),
    ("x+12", "x+1 2", False),
    ("3x + 2", "3x+2", True),
    ("xy", "x y", True),
    (r"\frac12", r"\frac 1 2", True),
    (r"\log_2 8", "3", True),
    # mixed numbers
    ("1 1/2", "3/2", True),
    ("1 1/2", "1.5", True),
    ("1 1/2", r"1\frac{1}{2}", True),
    ("11/2", "1 1/2", False),
    ("1 1/2", "11/2", False),
    ("-1 1/2", "-1.5", True),
    ("1 1/2 cm", "1.5 centimeters", True),
    # times
    ("1:30", "1:30", True),
    ("1:30", "01:30", True),
    ("1:30", "1:30 PM", True),
    ("1:30 PM", "1:30 p.m.", True),
    ("1:30 PM", "1:30 AM", False),
    ("1:30", "1:31", False),
    ("1:30", "130", False),
    ("1:30", "1:03", False),
    ("12 hours", "12 minutes", False),
    ("12 hours", "12", True),
    ("12", "12 hours", True),
    ("12 hours", "12 hrs", True),
    ("12 hours", r"12\text{ h}", True),
    ("1 hour", "1 hours", True),
    ("12 hours", "12 hours long", True),
    ("12 hours", "12 apples", False),
    ("12 boys", "12 students", False),
    ("12 boys", "12 tall boys", True),
    ("12 boxes", "12 box", True),
    ("5 pears", "5 apples", False),
    ("5", "5 apples", True),
    ("5 ways", "5 possibilities", True),
    ("5", "5 x", False),
    ("5", "5 ab", False),
    ("5", "5 xyz", False),
    ("5", "5 men", True),
    ("5", "5 m", True),
    ("60", "60 rpm", True),
    ("5", "5 of them", True),
    ("2", "2 x^2", False),
    ("3 men", "3", True),
    ("3", "3 m/s", True),
    # percents
    ("50%", "50", True),
    ("50%", "0.5", True),
    ("50%", r"50\%", True),
    ("50%", "50 percent", True),
    ("50%", "5%", False),
    ("50%", "50 cm", False),
    # lengths, areas, speeds
    ("5 cm", "5 centimeters", True),
    ("5 cm", "5 centimetre", True),
    ("5 cm", "5cm", True),
    ("5 cm", r"5\,\text{cm}", True),
    ("5 cm", r"5~\mathrm{cm}", True),
    ("5 cm", "5 m", False),
    ("5 m", r"5\text{ km}", False),
    ("5 cm", "5", True),
    ("5 cm", "6 cm", False),
    ("5 cm", r"5\text{ cm}^2", False),
    ("5 square feet", "5 sq ft", True),
    ("5 square feet", r"5\text{ ft}^2", True),
    ("5 feet", "5 ft", True),
    ("5 feet", "5 inches", False),
    ("40 km/h", "40 km per hour", True),
    ("40 mph", "40 miles per hour", True),
    ("40 mph", "40 km/h", False),
    (r"10\text{ m/s}", r"10\text{ m/s}^2", False),
    ("3 kg", "3 kilograms", True),
    ("3 kg", "3 g", False),
    ("2 m", "2 n", False),
    (r"\frac{1}{2}\text{ mile}", "0.5 miles", True),
    (r"5\sqrt{2}\text{ cm}", r"5\sqrt{2}\text{ m}", False),
    (r"5\sqrt{2}\text{ cm}", r"5\sqrt{2}", True),
    ("2gh", "2hg", True),
    ("5m + 2s", "2s + 5m", True),
    # money
    ("$5", "5 dollars", True),
    (r"\$5", "5", True),
    ("$5$", "5 cents", True),
    (r"\$5", "5 cents", False),
    (r"\$5", "€5", False),
    ("€5", "5 euros", True),
    ("€5", "5", True),
    (r"\$1,234.50", "1234.5", True),
    ("$3.50", "3.5 dollars", True),
    ("18 dollars", "18 dollars per day", True),
    ("18", r"\$18 per day", True),
    # degrees
    ("30°", "30", True),
    ("30°", "30 degrees", True),
    ("30°", r"30^\circ", True),
    (r"30^{\circ}", "30 degrees", True),
    ("30°", "30 radians", False),
    ("20°C", r"20^\circ\text{C}", True),
    ("20°C", "20°F", False),
    ("20°C", "20 degrees", True),
    # intervals, tuples, lists
    ("(1,2)", "(1, 2)", True),
    ("(1,2)", "[1,2]", False),
    ("(1,2]", "1<x<=2", True),
    ("(1,2)", "(2,1)", False),
    ("(1,2)", "(1 2)", False),
    (r"\{1,2\}", r"\{2, 1\}", True),
    ("1, 2", "2 and 1", True),
    ("3 cm, 4 m", "4 m, 3 cm", True),
    ("(3 cm, 4 cm)", "(3 m, 4 m)", False),
    ("(3 cm, 4 cm)", "(3, 4)", True),
    (r"(-\infty,3]", r"(-\infty, 3]", True),
)


@pytest.mark.parametrize(("expected", "answer", "equal"), TABLE)
def test_answers_of_the_table(expected: str, answer: str, equal: bool) -> None:
    assert verdict(answer, expected) == equal


def test_the_rules_for_units_are_symmetric() -> None:
    for expected, answer, _ in TABLE:
        assert units_differ(answer, expected) == units_differ(expected, answer)


def test_a_unit_is_found_in_linear_time() -> None:
    pieces = (
        *("1", " ", "m", "cm ", "square ", r"\text{", "}", "^", "°", "/", "per ", "$", "a ", r"\circ ", ","),
        *("2 cm, ", " 1"),
    )
    assert_cheap((piece, lambda text=piece * 250_000: unit_of(text)) for piece in pieces)
