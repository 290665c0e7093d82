import math

import pytest

from components.training.base import worst_mismatch


def test_the_documented_example() -> None:
    found = worst_mismatch((-2.0, -18.0), (-2.3, -18.6), 0.5)
    assert (found.position, found.allowed) == (0, 0.5)
    assert found.difference == pytest.approx(0.3)
    assert found.is_allowed


@pytest.mark.parametrize(
    ("expected", "found", "tolerance", "is_allowed"),
    [
        (-17.572048, -18.117462, 0.5, True),  # bfloat16 at an improbable token
        (-17.572048, -18.8, 0.5, False),
        (-8.0, -8.5, 0.5, True),
        (-7.0, -7.51, 0.5, False),
        (0.0, -0.51, 0.5, False),
        (-1.0, -1.0001, 1e-4, True),
        (-1.0, -1.00011, 1e-4, False),
    ],
)
def test_rounding_is_relative_beyond_eight_nats(
    expected: float, found: float, tolerance: float, is_allowed: bool
) -> None:
    assert worst_mismatch((expected,), (found,), tolerance).is_allowed is is_allowed


@pytest.mark.parametrize("broken", [math.nan, -math.inf, math.inf])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_what_is_not_finite_is_never_allowed_wherever_it_stands(broken: float, position: int) -> None:
    values = [-1.0, -2.0, -3.0]
    values[position] = broken
    for pair in ((values, [-1.0, -2.0, -3.0]), ([-1.0, -2.0, -3.0], values), (values, values)):
        found = worst_mismatch(*pair, 10.0)
        assert (found.position, found.is_allowed) == (position, False)
