"""Every field of the configuration changes the run's, or is refused: the table of places is walked."""

from dataclasses import fields
from typing import Any

import pytest

from components.config import RunConfig
from flows.api.multi_model.checkpoints import episodes_per_step
from flows.api.multi_model.configs import (
    CooperationFactor,
    MultiModelConfig,
    RLAlgorithm,
    RLConfig,
    TrainingMode,
    WeightUpdateStrategy,
)
from flows.api.multi_model.environments import MultiModelTrainingEnvironment, create_multi_model_coop_compete_env
from flows.api.multi_model.training import TOKENS_PER_ANSWER, count_problems, population_config, run_name

TINY: dict[str, Any] = {"num_models": 2, "model_types": ["tiny"], "model_names": {"tiny": "tiny"}}
CHANGES: dict[str, tuple[Any, str]] = {
    "num_models": (3, "policies, agents"),
    "model_types": (["tiny", "openai"], "policies"),
    "model_names": ({"tiny": "smollm2-135m"}, "policies"),
    "training_mode": (TrainingMode.COOPERATIVE, "method.training_mode"),
    "weight_update_strategy": (WeightUpdateStrategy.FEDERATED, "method.weight_updates, policies"),
    "max_episodes": (500, "num_steps"),
    "episode_length": (8, "environment.options, environment.max_turns"),
    "update_frequency": (5, "rollout.num_problems, rollout.group_size"),
    "learning_rate": (1e-3, "training.learning_rate"),
    "cooperation_strength": (0.1, "method.training_mode.cooperation_strength"),
    "competition_intensity": (0.1, "method.training_mode.competition_intensity"),
    "batch_size": (16, "training.tokens_per_micro_batch"),
    "checkpoint_dir": ("./elsewhere", "store.root"),
    "max_checkpoints": (3, "retention.newest"),
    "enable_verl": (False, "training.share_prompts"),
    "enable_areal": (False, "rollout.num_shards, resources.max_shards_at_once"),
    "kv_cache_size": (5000, "generation.max_batch_tokens"),
}
"""Each field, another value of it, and what that changes in the run's configuration."""
ELSEWHERE = {
    "enable_monitoring": "the trainer reads it, and `test_trainer.py` changes it",
    "episode_timeout_seconds": "as above",
    "api_settings": "of a member behind an API, with which `test_trainer.py` plays",
    "num_gpus": "without a GPU all numbers of them compute on the CPU; `tests/gpu` has the rest",
    "base_port": "refused below",
}


def run_config(**values: Any) -> RunConfig:
    config = MultiModelConfig(**{**TINY, **values})
    return population_config(config, create_multi_model_coop_compete_env(config.num_models, 0.6))


def at(config: RunConfig, place: str) -> Any:
    values: Any = config.model_dump(mode="json")
    for part in place.split("."):
        values = values.get(part)
        if values is None:
            return None
    return values


def test_every_field_changes_what_it_says_or_is_named_elsewhere() -> None:
    assert CHANGES.keys() | ELSEWHERE.keys() == {each.name for each in fields(MultiModelConfig)}
    for name, (value, places) in CHANGES.items():
        before, after = run_config(), run_config(**{name: value})
        assert all(at(before, place) != at(after, place) for place in places.split(", ")), name


def test_what_may_change_between_two_calls_keeps_the_name_of_the_run() -> None:
    name = run_name(run_config())
    assert name == run_name(run_config(batch_size=1, max_episodes=20, checkpoint_dir="elsewhere"))
    assert name != run_name(run_config(learning_rate=1e-3))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"training_mode": TrainingMode.COOPERATIVE, "competition_intensity": 0.9},
            "competition_intensity: unknown key; type competitive and mixed has it",
        ),
        ({"base_port": 9001}, "base_port 9001: .*own process"),
        ({"max_episodes": 25}, "max_episodes 25: use a multiple of 10"),
        ({"max_episodes": 1}, "max_episodes 1: .*use 2 or more"),
    ],
)
def test_a_field_without_effect_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run_config(**values)


def test_members_that_do_not_go_together_are_refused() -> None:
    four = MultiModelConfig(**{**TINY, "num_models": 4})
    with pytest.raises(
        ValueError, match="num_models 4: the environment coop_compete has 2 players; use num_models 2 or fewer"
    ):
        population_config(four, create_multi_model_coop_compete_env(2, 0.6))
    own = create_multi_model_coop_compete_env(2, 0.6, num_steps=4)
    with pytest.raises(ValueError, match="episode_length 8: the environment has 4 steps of its own"):
        population_config(MultiModelConfig(**TINY, episode_length=8), own)
    assert population_config(MultiModelConfig(**TINY), own).environment.max_turns == 4
    assert population_config(MultiModelConfig(**TINY), MultiModelTrainingEnvironment("team_battle", seed=3)).seed == 3
    with pytest.raises(ValueError, match=r"differ in base|trained"):
        run_config(
            model_types=["tiny", "smol"],
            model_names={"tiny": "tiny", "smol": "smollm2-135m"},
            weight_update_strategy=WeightUpdateStrategy.SYNCHRONIZED,
        )
    with pytest.raises(ValueError, match="model_names"):
        run_config(model_types=["gemini"])
    steps = {(10, 100): (5, 2), (5, 100): (1, 5), (10, 2): (1, 2), (10, 4): (2, 2)}
    for (frequency, episodes), wanted in steps.items():
        config = MultiModelConfig(**TINY, update_frequency=frequency, max_episodes=episodes)
        assert count_problems(config) == wanted
    assert run_config(max_episodes=2).num_steps == 1, "two episodes, not the ten of a whole step"


def test_models_behind_an_api_play_and_are_never_updated() -> None:
    config = run_config(model_types=["tiny", "claude"])
    assert (config.policies["model_1_claude"].trained, config.policies["model_0_tiny"].trained) == (False, True)
    assert config.policies["model_1_claude"].api is not None


def test_the_fields_of_the_learner_change_the_run_or_are_refused() -> None:
    config = MultiModelConfig(**TINY, training_mode=TrainingMode.COOPERATIVE, cooperation_strength=0.9)
    env = create_multi_model_coop_compete_env(2, 0.6)
    team = CooperationFactor(team_size=2)
    learner = RLConfig(gamma=0.5, batch_size=8, cooperation_factor=team)
    run = population_config(config, env, learner)
    mode = run.method.training_mode  # type: ignore[union-attr]
    assert (run.algorithm.discount, mode.cooperation_strength, mode.team_size) == (0.5, 0.9, 2)  # type: ignore[union-attr]
    assert run.training.tokens_per_micro_batch == 2048
    assert (run.algorithm.advantage, run.algorithm.trace, run.algorithm.value_coefficient) == ("gae", 0.95, 0.5)
    grpo = population_config(config, env, RLConfig(algorithm=RLAlgorithm.GRPO))
    assert (grpo.algorithm.advantage, grpo.rollout.mode, episodes_per_step(grpo)) == ("at_grpo", "tree", 10)
    with pytest.raises(ValueError, match=r"gamma 0.8: GRPO compares"):
        population_config(config, env, RLConfig(algorithm=RLAlgorithm.GRPO, gamma=0.8))
    rivals = MultiModelConfig(**TINY, training_mode=TrainingMode.COMPETITIVE)
    with pytest.raises(ValueError, match=r"team_size: unknown key; type cooperative and mixed has it"):
        population_config(rivals, env, learner)


def test_of_a_field_that_both_configurations_have_a_default_gives_way_and_two_others_are_refused() -> None:
    def sizes(config: MultiModelConfig, learner: RLConfig | None) -> tuple[float, int]:
        training = population_config(config, create_multi_model_coop_compete_env(2, 0.6), learner).training
        return training.learning_rate, training.tokens_per_micro_batch // TOKENS_PER_ANSWER

    config = MultiModelConfig(**TINY, learning_rate=1e-3, batch_size=8)
    assert sizes(config, None) == sizes(config, RLConfig()) == (1e-3, 8)
    assert sizes(MultiModelConfig(**TINY), RLConfig(learning_rate=1e-2, batch_size=16)) == (1e-2, 16)
    with pytest.raises(ValueError, match=r"batch_size 8 and RLConfig.batch_size 16: leave one of them out"):
        sizes(config, RLConfig(batch_size=16))


def test_without_a_learner_its_documented_defaults_hold() -> None:
    plain = run_config()
    assert plain == population_config(MultiModelConfig(**TINY), create_multi_model_coop_compete_env(2, 0.6), RLConfig())
    assert (plain.algorithm.advantage, plain.training.num_epochs, plain.training.max_grad_norm) == ("gae", 4, 0.5)
    assert (plain.loss.clip_low, plain.loss.clip_high, plain.loss.entropy_coefficient) == (0.2, 0.2, 0.01)
