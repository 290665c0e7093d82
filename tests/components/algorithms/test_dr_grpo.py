"""Dr. GRPO centres and divides by nothing."""

import pytest

from components.algorithms.dr_grpo import dr_grpo_advantages
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm


def test_the_centred_reward_is_the_advantage() -> None:
    found = dr_grpo_advantages(
        [episode("a", 0, "t", num=4)], [((1.0, 0.0, 0.0, 0.0),)], choose_algorithm(advantage="dr_grpo")
    )
    assert found == [((0.75, -0.25, -0.25, -0.25),)]


def test_a_configuration_that_divides_is_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="divides by no deviation"):
        dr_grpo_advantages([episode("a", 0, "t", num=2)], [((1.0, 0.0),)], choose_algorithm())
