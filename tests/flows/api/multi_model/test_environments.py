"""The games of the reference by their factories: what a training plays of each, and what is none refused."""

from typing import Any

import pytest

from flows.api.multi_model.configs import EnvironmentType
from flows.api.multi_model.environments import (
    MultiModelTrainingEnvironment,
    create_maze_training_env,
    create_multi_model_coop_compete_env,
    create_multi_model_staged_env,
    create_multi_model_team_battle,
    create_social_training_env,
)


def test_a_game_fits_the_members_and_length_of_a_training() -> None:
    section = create_maze_training_env("simple").fit(3, 16).section()
    assert section["options"] == {"layout": "simple", "num_members": 3, "num_steps": 16}
    assert (section["max_turns"], section["answer_format"]) == (16, "choice")
    assert create_multi_model_coop_compete_env(8).fit(6, 4).section()["options"]["num_members"] == 8
    assert create_social_training_env("trading", 2).fit(2, 4).section()["max_turns"] == 12
    assert len(create_multi_model_team_battle().fit(2, 4).players) == 8
    assert create_multi_model_staged_env(3, warmup_episodes=1).fit(3, 4).section()["name"] == "staged"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: create_maze_training_env("hard"), "layout: .*'hard'"),
        (lambda: create_maze_training_env(None), "layout: .*None"),  # type: ignore[arg-type]
        (lambda: create_multi_model_coop_compete_env(2, 0.5, seed="x"), "seed 'x'"),
        (lambda: create_social_training_env("negotiation"), "bargaining"),
        (lambda: MultiModelTrainingEnvironment("bandit"), "env_type"),
        (lambda: MultiModelTrainingEnvironment(EnvironmentType.TEAM_BATTLE, size=3), "size"),
    ],
)
def test_what_is_no_game_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
