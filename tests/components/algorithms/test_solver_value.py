"""An exact solver's values as advantages."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.algorithms.registry import find_estimator
from components.errors import ConfigurationError
from components.schema import Episode
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

SOLVER = choose_algorithm(advantage="solver_value")
MALFORMED = "two lists"


def gaining(played: Episode, *gains_N_K: tuple[float | str | None, ...]) -> Episode:
    """`played` with these gains; a string is the error of a malformed answer without one."""
    nodes = []
    for node, gains_K in zip(played.nodes, gains_N_K, strict=True):
        outcomes = [
            replace(c.outcome, error=gain) if isinstance(gain, str) else replace(c.outcome, value_gain=gain)
            for c, gain in zip(node.candidates, gains_K, strict=True)
        ]
        candidates = [replace(c, outcome=o) for c, o in zip(node.candidates, outcomes, strict=True)]
        nodes.append(replace(node, candidates=tuple(candidates)))
    return replace(played, nodes=tuple(nodes))


def test_the_advantage_is_the_gain_whatever_the_reward() -> None:
    played = gaining(episode("a", 0, "t", num=3), (0.25, 0.0, -0.5))
    assert find_estimator("solver_value")([played], [((9.0, 9.0, 9.0),)], SOLVER) == [((0.25, 0.0, -0.5),)]


def test_whole_episodes_need_no_siblings() -> None:
    played = gaining(episode("a", 0, "tp"), (0.25,), (0.5,))
    assert find_estimator("solver_value")([played], [((0.0,), (1.0,))], SOLVER) == [((0.25,), (0.5,))]


def test_normalised_gains_have_size_one_and_keep_their_signs() -> None:
    played = [gaining(episode("a", 0, "t", num=2), (3.0, 4.0)), gaining(episode("b", 0, "t", num=2), (0.0, None))]
    algorithm = choose_algorithm(advantage="solver_value", normalize_std=True, epsilon=1e-12)
    found = find_estimator("solver_value")(played, [((0.0, 0.0),), ((0.0, 0.0),)], algorithm)
    size = (25 / 3) ** 0.5
    assert found == [(pytest.approx((3 / size, 4 / size)),), ((0.0, None),)]


def test_unscored_and_unvalued_actions_are_out_and_what_was_not_read_gains_nothing() -> None:
    played = gaining(episode("a", 0, "t", num=4), (0.5, None, MALFORMED, 0.25))
    assert find_estimator("solver_value")([played], [((1.0, 1.0, 0.0, None),)], SOLVER) == [((0.5, None, 0.0, None),)]


def test_an_environment_without_a_solver_is_refused_by_name() -> None:
    played = gaining(episode("a", 0, "t", num=2), (None, MALFORMED))
    with pytest.raises(ConfigurationError, match="solver_value: environment toy has no solver"):
        find_estimator("solver_value")([played], [((1.0, 0.0),)], SOLVER)
    assert find_estimator("solver_value")([played], [((None, 0.0),)], SOLVER) == [((None, 0.0),)]


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_nothing_is_compared_so_that_order_and_company_change_nothing(gains: list[float], rng: object) -> None:
    rng.shuffle(gains)  # type: ignore[attr-defined]
    episodes = [gaining(episode("a", number, "t"), (gain,)) for number, gain in enumerate(gains)]
    found = find_estimator("solver_value")(episodes, [((0.0,),)] * len(gains), SOLVER)
    assert found == [((gain,),) for gain in gains]
