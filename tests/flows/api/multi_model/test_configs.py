"""The documented configurations: defaults of the reference, documented messages, every field checked, JSON and back."""

import json
from dataclasses import MISSING, fields
from typing import Any

import pytest

from components.config import AdapterConfig
from flows.api.multi_model.checked_config import CheckedConfig
from flows.api.multi_model.enums import LLMBackend, RLAlgorithm, TrainingMode, WeightUpdateStrategy
from flows.api.multi_model.model_configs import (
    CompetenceFactor,
    CooperationFactor,
    LLMConfig,
    LoRAConfig,
    MonitoringConfig,
    RLConfig,
)
from flows.api.multi_model.training_config import ModelState, MultiModelConfig

NEEDED: dict[type[CheckedConfig], dict[str, Any]] = {
    MultiModelConfig: {},
    LLMConfig: {},
    RLConfig: {},
    LoRAConfig: {"lora_id": 1},
    MonitoringConfig: {},
    CooperationFactor: {},
    CompetenceFactor: {},
    ModelState: {"model_id": "model_0_qwen3", "model_type": "qwen3", "model_name": "tiny"},
}
FIELDS = [(kind, each.name) for kind in NEEDED for each in fields(kind)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=lambda value: getattr(value, "__name__", value))
def test_every_field_refuses_what_it_is_not_and_names_itself(kind: type[CheckedConfig], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}|Unsupported LLM backend"):
        kind(**{**NEEDED[kind], name: object()})
    with pytest.raises(ValueError, match=f"{name}|Unsupported LLM backend"):
        setattr(kind(**NEEDED[kind]), name, [[]])


@pytest.mark.parametrize("kind", list(NEEDED))
def test_a_configuration_is_json_and_comes_back_equal(kind: type[CheckedConfig]) -> None:
    config = kind(**NEEDED[kind])
    assert kind.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(ValueError, match="no such field"):
        kind.from_json({**config.to_json(), "robustness": 1})
    with pytest.raises(ValueError, match="no such field"):
        config.batchsize = 3  # type: ignore[attr-defined]
    lists = [each.name for each in fields(kind) if each.default_factory is not MISSING]  # type: ignore[arg-type]
    assert all(getattr(config, name) is not getattr(kind(**NEEDED[kind]), name) for name in lists)


def test_the_defaults_of_the_reference() -> None:
    config = MultiModelConfig()
    assert (config.num_models, config.num_gpus, config.base_port, config.max_episodes) == (4, 4, 8001, 1000)
    assert config.model_types == ["qwen3", "openai", "claude", "llama3"]
    assert (config.training_mode, config.weight_update_strategy) == (
        TrainingMode.MIXED,
        WeightUpdateStrategy.ASYNCHRONOUS,
    )
    assert (config.learning_rate, config.checkpoint_dir) == (3e-4, "./checkpoints/multimodel")
    assert (LLMConfig().model_name, LLMConfig().max_length) == ("Qwen/Qwen2.5-14B-Instruct", 32768)
    assert LoRAConfig(lora_id=3).adapter() == AdapterConfig(
        rank=16, alpha=32.0, targets=("q_proj", "v_proj", "k_proj", "o_proj")
    )
    assert list(MultiModelConfig(num_models=5).member_types())[-1] == "model_4_qwen3"


def test_the_documented_messages() -> None:
    with pytest.raises(ValueError, match=r"^Invalid number of models"):
        MultiModelConfig(num_models=0)
    with pytest.raises(ValueError, match=r"^Unsupported LLM backend: 'tpu'"):
        LLMBackend("tpu")
    with pytest.raises(ValueError, match="bach_size: no such field; did you mean 'batch_size'"):
        MultiModelConfig(bach_size=1)  # type: ignore[call-arg]
    for algorithm, reason in ((RLAlgorithm.SAC, "replay buffer"), (RLAlgorithm.TD3, "discrete")):
        with pytest.raises(ValueError, match=reason):
            RLConfig(algorithm=algorithm)
    with pytest.raises(ValueError, match="log-probabilities"):
        LoRAConfig(lora_id=1, dropout=0.1)


def test_a_key_is_shown_nowhere() -> None:
    config = LLMConfig(backend=LLMBackend.OPENAI_API, api_key="sk-secret")
    assert config.api_key == "sk-secret"
    assert "secret" not in repr(config) + str(config) + json.dumps(config.to_json())


def test_a_state_counts_wins_and_averages_cooperation() -> None:
    state = ModelState(**NEEDED[ModelState]).after_step(2.0, 3, num_won=3, cooperated=1.0)
    state = state.after_step(-0.5, 2, num_won=0, cooperated=None)
    assert (state.total_reward, state.episode_count, state.win_count) == (5.0, 5, 3)
    assert state.cooperation_score == pytest.approx(0.55)
