"""The pieces of the two-role protocol that no single puzzle shows."""

from math import inf

import pytest

from components.environments.games.environment import DEFAULT_WEIGHTS
from components.environments.registry import family, family_options
from components.environments.shared.progress import progress
from components.rewards.base import Rubric

GAMES = ("plan_path", "sokoban", "sudoku")


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [(8, 6, 0.25), (8, 0, 1.0), (8, 8, 0.0), (2, 7, -1.0), (4, 5, -0.25), (3, inf, -1.0), (inf, inf, 0.0)],
)
def test_progress_is_the_share_of_the_distance_covered(before: float, after: float, share: float) -> None:
    assert progress(before, after) == share


@pytest.mark.parametrize("name", GAMES)
def test_rewards_are_those_of_the_default_rubric(name: str) -> None:
    chosen = family(name)
    assert chosen.default_weights == DEFAULT_WEIGHTS
    rubric = Rubric(team_weight=1.0, weights=chosen.default_weights)
    env = chosen.build(chosen.problem(family_options(name, {}), split="train", index=0, seed=0))
    for role, action in (("tool_agent", "nonsense"), ("plan_agent", chosen.expert_action(env.position, "plan_agent"))):
        outcome = env.apply(role, action)
        assert env.team_reward == rubric.team(outcome)
        assert env.local_reward(role) == rubric.local(outcome)
    assert env.local_reward("tool_agent") == pytest.approx(-0.1)


def test_an_unknown_agent_breaks_an_invariant() -> None:
    chosen = family("plan_path")
    env = chosen.build(chosen.problem(family_options("plan_path", {}), split="train", index=0, seed=0))
    with pytest.raises(AssertionError):
        env.observe("judge")
    with pytest.raises(AssertionError):
        env.apply("judge", "")
