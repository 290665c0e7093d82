"""The rubric of a run is the environment's, under the configuration's overrides."""

import pytest

from components.config import RewardConfig
from components.errors import ConfigurationError
from components.rewards.rubric import rubric_for
from components.schema import ActionOutcome
from tests.components.rollout.toy_team import ToyFamily

OUTCOME = ActionOutcome(team={"quality": 0.5}, local={"style": 0.25}, solves=False, done=False)


def test_defaults_are_the_environments() -> None:
    rubric = rubric_for(ToyFamily(), RewardConfig())
    assert rubric.reward(OUTCOME) == 1.0 * (1.0 * 0.5) + 0.5 * 0.25


def test_overrides_replace_single_weights() -> None:
    rubric = rubric_for(ToyFamily(), RewardConfig(team_weight=2.0, weights={"local.style": -4.0}))
    assert rubric.reward(OUTCOME) == 2.0 * 0.5 - 4.0 * 0.25
    assert rubric.team(OUTCOME) == 0.5
    assert rubric.local(OUTCOME) == -1.0


@pytest.mark.parametrize(
    ("component", "remedy"),
    [
        ("team.qualty", "did you mean 'team.quality'"),
        ("zzz", "toy has local.malformed, local.style, team.quality, team.solved"),
    ],
)
def test_an_unknown_component_names_the_nearest(component: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"rewards\.weights\.{component} = 1\.0.*{remedy}"):
        rubric_for(ToyFamily(), RewardConfig(weights={component: 1.0}))
