"""Years of nights by the rule of promotion, at a size that tells a sound rule from one that is not."""

import pytest

from benchmarks.promotion_years import share_false, share_promoted


@pytest.mark.parametrize("entrant", [1, 20, 100])
def test_a_better_run_that_trains_meanwhile_is_promoted_within_two_weeks(entrant: int) -> None:
    assert share_promoted(entrant, years=150, seed=1) >= 0.88


def test_an_equal_run_that_trains_meanwhile_is_not() -> None:
    assert share_promoted(1, years=300, seed=1, better=0.0) <= 0.025


def test_equal_models_are_promoted_no_more_often_than_stated() -> None:
    """At a rate of 40%, which a few years can tell from one that is not held."""
    assert share_false(years=12, seed=2, rate=0.4) <= 0.4
