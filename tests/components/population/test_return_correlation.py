"""Whether returns rise together: numpy as oracle, a window, and members that drift apart."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.population.credit import WINDOW, ReturnCorrelation, mean_correlation

EPISODES = st.integers(2, 5).flatmap(
    lambda num: st.lists(st.tuples(*[st.integers(-3, 3).map(float)] * num), min_size=1, max_size=50)
)


@given(EPISODES)
def test_the_mean_correlation_is_numpys_and_bounded_by_the_number_of_members(episodes: list[tuple[float, ...]]) -> None:
    found = mean_correlation(episodes)
    table = np.array(episodes)
    num = table.shape[1]
    moving = [column for column in table.T if column.min() != column.max()]
    off_diagonal = np.corrcoef(moving).sum() - len(moving) if len(moving) > 1 else 0.0
    assert found == pytest.approx(off_diagonal / (num * (num - 1)), abs=1e-9)
    assert -1 / (num - 1) - 1e-9 <= found <= 1


@given(EPISODES)
def test_the_state_keeps_the_last_episodes(episodes: Any) -> None:
    state = ReturnCorrelation()
    for returns in episodes:
        state = state.after(returns)
    assert list(state.returns_E_N) == episodes[-WINDOW:]


def test_members_that_win_together_drift_to_cooperation() -> None:
    together = apart = ReturnCorrelation()
    for number in range(100):
        together = together.after([number % 2, number % 2])
        apart = apart.after([number % 2, -(number % 2)])
    assert together.value == pytest.approx(1 - 0.9**99)
    assert apart.value == pytest.approx(-together.value)
    with pytest.raises(ConfigurationError, match="3 returns after episodes of 2"):
        together.after([1.0, 2.0, 3.0])
    with pytest.raises(ConfigurationError, match="not finite"):
        together.after([1.0, float("nan")])
