"""Correlation, ranks, directives and competence: closed forms, numpy and scipy as oracles, states equal after a resume."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, rankdata

from components.errors import ConfigurationError
from components.population.competence import Competence, CompetenceFactor, competence_targets, routing_shares
from components.population.return_correlation import WINDOW, ReturnCorrelation, mean_correlation
from components.population.reward_terms import communication_costs, compliance_bonus, rank_bonus

RETURNS = st.lists(st.floats(-10, 10), min_size=2, max_size=6)
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


@given(EPISODES, st.integers(0, 50))
def test_the_correlations_state_is_equal_to_the_bit_after_a_resume(episodes: Any, kill: int) -> None:
    state = ReturnCorrelation()
    for number, returns in enumerate(episodes):
        if number == kill:
            state = ReturnCorrelation.from_json(json.loads(json.dumps(state.to_json())))
        state = state.after(returns)
    uninterrupted = ReturnCorrelation()
    for returns in episodes:
        uninterrupted = uninterrupted.after(returns)
    assert state == uninterrupted
    assert len(state.returns_E_N) == min(WINDOW, len(episodes))


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


@given(RETURNS, st.floats(0, 1))
def test_the_rank_bonus_is_scipys_ranks_centred(returns: list[float], intensity: float) -> None:
    num = len(returns)
    ranks = rankdata([-each for each in returns])
    wanted = intensity * ((num + 1) / 2 - ranks) / ((num - 1) / 2)
    assert rank_bonus(returns, intensity) == pytest.approx(wanted.tolist(), abs=1e-12)
    assert sum(rank_bonus(returns, intensity)) == pytest.approx(0, abs=1e-12)


def test_followers_are_paid_for_the_directive_and_messages_cost() -> None:
    assert compliance_bonus("CCD", [None, "C", "C"], leader=0) == (0.0, 0.1, 0.0)
    assert compliance_bonus("CCC", ["C", "C", None], leader=0) == (0.0, 0.1, 0.0)
    assert communication_costs([2, 0], 0.01) == (-0.02, 0.0)
    for call in (lambda: compliance_bonus("CC", "CC", leader=2), lambda: rank_bonus([1.0], 0.4)):
        with pytest.raises(ConfigurationError):
            call()


@given(RETURNS)
def test_competence_targets_are_scipys_normal_shares(returns: list[float]) -> None:
    spread = np.std(returns)
    if spread > 1e-6:
        wanted = norm.cdf((np.array(returns) - np.mean(returns)) / spread)
        assert competence_targets(returns) == pytest.approx(wanted.tolist(), abs=1e-9)
    assert competence_targets([returns[0]] * 3) == (0.5, 0.5, 0.5)


@given(st.lists(st.floats(0, 1), max_size=30), st.sampled_from(["general", "specialized", "adaptive"]))
def test_competence_stays_in_bounds_and_does_not_decay(targets: list[float], type_: Any) -> None:
    competence = Competence(factor=CompetenceFactor(type=type_, max_capability=0.8))
    for target in targets:
        competence = competence.after(target, "maze")
    assert 0 <= competence.value("maze") <= 0.8
    assert Competence.from_json(json.loads(json.dumps(competence.to_json()))) == competence
    for _ in range(200):
        competence = competence.after(0.7, "maze")
    assert competence.value("maze") == pytest.approx(0.7, abs=1e-6)
    assert competence.value("other") == pytest.approx(0.5 if type_ == "specialized" else 0.7, abs=1e-6)
    assert competence.learning_rate_factor() == pytest.approx(1.15 if type_ == "adaptive" else 1.0)


def test_problems_go_to_specialists_by_their_level() -> None:
    def at(value: float, level: float) -> Competence:
        return Competence(factor=CompetenceFactor(base_capability=value, specialization_level=level))

    assert routing_shares([at(1.0, 0.0), at(0.0, 0.0)], "maze") == (0.5, 0.5)
    assert routing_shares([at(1.0, 3.0), at(0.0, 3.0)], "maze") == pytest.approx((0.953, 0.047), abs=5e-4)
    for wrong in ({"base_capability": 1.5}, {"adaptation_speed": 2.0}, {"specialization_level": -1.0}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            CompetenceFactor(**wrong)  # type: ignore[arg-type]
