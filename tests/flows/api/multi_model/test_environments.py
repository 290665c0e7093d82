"""The games of the reference by their factories: rewards by hand, texts for prompts, and wrong actions refused."""

from typing import Any

import numpy
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


def test_eight_cooperate_for_the_documented_reward_and_wrong_actions_change_nothing() -> None:
    env = create_multi_model_coop_compete_env(num_models=8, cooperation_level=0.6, noise_std=0.0, num_steps=2)
    seen = env.reset()
    assert list(seen) == list(env.players) == [f"player_{index}" for index in range(8)]
    for wrong in (
        {"player_0": 1},
        {**dict.fromkeys(env.players, 1), "player_7": "share"},
        dict.fromkeys(env.players, 2),
        None,
        {0: 1, "player_1": 1},
    ):
        with pytest.raises(ValueError, match="actions"):
            env.step(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="did you mean 'player_"):
        env.actions("player_9")
    state, rewards, done, info = env.step(dict.fromkeys(env.players, numpy.int64(1)))  # type: ignore[arg-type]
    assert rewards == pytest.approx(dict.fromkeys(env.players, 0.85))
    assert (done, info["team"]["cooperation"]) == (False, 1.0)
    assert "7 of 7 others cooperate" in state["player_3"]
    _, rewards, done, _ = env.step(dict.fromkeys(env.players, 0))
    assert rewards == pytest.approx(dict.fromkeys(env.players, 0.8))
    assert done
    with pytest.raises(ValueError, match="reset"):
        env.step(dict.fromkeys(env.players, 1))


@pytest.mark.parametrize(
    "env",
    [
        create_multi_model_team_battle(),
        create_multi_model_staged_env(3),
        create_maze_training_env("simple", num_members=2),
        create_social_training_env("trading", 2),
        create_social_training_env("trading", 2, must_offer=True),
    ],
    ids=lambda env: env.name,
)
def test_every_game_is_played_to_its_end_by_legal_actions(env: MultiModelTrainingEnvironment) -> None:
    env.reset()
    steps: list[dict[str, float]] = []
    done = False
    while not done:
        acting = env.players_to_act()
        _, rewards, done, _ = env.step({each: env.actions(each)[-1] for each in acting})
        steps.append(rewards)
        assert rewards.keys() == set(env.players)
    assert 1 <= len(steps) <= 200


def test_a_game_fits_the_members_and_length_of_a_training() -> None:
    section = create_maze_training_env("simple").fit(3, 16).section()
    assert section["options"] == {"layout": "simple", "num_members": 3, "num_steps": 16}
    assert (section["max_turns"], section["answer_format"]) == (16, "choice")
    assert create_multi_model_coop_compete_env(8).fit(6, 4).section()["options"]["num_members"] == 8
    assert create_social_training_env("trading", 2).fit(2, 4).section()["max_turns"] == 12


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
