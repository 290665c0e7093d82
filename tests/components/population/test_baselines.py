"""Baselines by role: closed forms, roles apart, and what would poison them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.population.credit import RoleBaselines


@given(st.floats(-5, 5), st.floats(0, 0.99), st.integers(0, 40))
def test_a_constant_return_is_approached_geometrically_by_its_own_role(value: float, decay: float, num: int) -> None:
    baselines = RoleBaselines(decay=decay).after("leduc", "first", 3.0)
    for number in range(num):
        assert baselines.value("kuhn", "first") == pytest.approx(value * (1 - decay**number), abs=1e-9)
        baselines = baselines.after("kuhn", "first", value)
    assert baselines.value("kuhn", "first") == pytest.approx(value * (1 - decay**num), abs=1e-9)
    assert baselines.value("leduc", "first") == pytest.approx(3 * (1 - decay))
    assert baselines.value("kuhn", "second") == 0.0


def test_what_would_poison_the_state_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="earned nan of kuhn/first"):
        RoleBaselines().after("kuhn", "first", float("nan"))
