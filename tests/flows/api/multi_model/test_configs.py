"""The documented configurations: names, defaults and messages of the reference, in one table; every change is checked."""

import json
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from components.config import AdapterConfig
from flows.api.fields import as_json
from flows.api.multi_model import (
    CompetenceFactor,
    CooperationFactor,
    LLMBackend,
    LLMConfig,
    LoRAConfig,
    MonitoringConfig,
    MultiModelConfig,
    RLAlgorithm,
    RLConfig,
    TrainingMode,
    UpdateStrategy,
    WeightUpdateStrategy,
)

DOCUMENTED: dict[Any, dict[str, Any]] = {
    MultiModelConfig: {
        "num_models": 4,
        "model_types": ["qwen3", "openai", "claude", "llama3"],
        "model_names": {
            "qwen3": "Qwen/Qwen2.5-14B-Instruct",
            "openai": "gpt-4o-mini",
            "claude": "claude-3-5-haiku-20241022",
            "llama3": "meta-llama/Llama-3.1-8B-Instruct",
        },
        "training_mode": TrainingMode.MIXED,
        "weight_update_strategy": WeightUpdateStrategy.ASYNCHRONOUS,
        "max_episodes": 1000,
        "learning_rate": 3e-4,
        "num_gpus": 4,
        "base_port": 8001,
        "checkpoint_dir": "./checkpoints/multimodel",
        "enable_verl": True,
        "enable_areal": True,
    },
    LLMConfig: {
        "backend": LLMBackend.HUGGINGFACE,
        "model_name": "Qwen/Qwen2.5-14B-Instruct",
        "device": "auto",
        "max_length": 32768,
        "temperature": 0.7,
        "api_key": None,
        "enable_lora": False,
        "update_strategy": UpdateStrategy.ADAPTIVE,
    },
    RLConfig: {
        "algorithm": RLAlgorithm.PPO,
        "learning_rate": 3e-4,
        "gamma": 0.99,
        "cooperation_factor": CooperationFactor(),
        "competence_factor": CompetenceFactor(),
        "batch_size": 32,
    },
    LoRAConfig: {
        "rank": 16,
        "alpha": 32.0,
        "dropout": 0.1,
        "target_modules": ["q_proj", "v_proj", "k_proj", "o_proj"],
        "gpu_id": 0,
        "port": 8001,
    },
    MonitoringConfig: {"enable_file_logging": True, "log_file_path": "./logs/metrics.json"},
    CooperationFactor: {},
    CompetenceFactor: {},
}
FIRST: dict[Any, list[Any]] = {LoRAConfig: [1]}


@pytest.mark.parametrize("kind", list(DOCUMENTED), ids=lambda kind: kind.__name__)
def test_every_documented_field_has_its_place_and_default_and_another_is_refused(kind: Any) -> None:
    first, documented = FIRST.get(kind, []), DOCUMENTED[kind]
    config = kind(*first)
    assert is_dataclass(config)
    assert {name: getattr(config, name) for name in documented} == documented
    if kind is not MonitoringConfig:
        named = [each.name for each in fields(config)]
        assert named[len(first) : len(first) + len(documented)] == list(documented), "also by position"
    assert kind(**json.loads(json.dumps(as_json(config)))) == config == replace(config)
    for each in fields(config):
        with pytest.raises(ValueError, match=rf"{each.name}|Unsupported LLM backend"):
            kind(**{**dict(zip(["lora_id"], first, strict=False)), each.name: object()})
        with pytest.raises(ValueError, match=rf"{each.name}|Unsupported LLM backend"):
            setattr(config, each.name, [[]])
        wrong = f"{each.name}x"
        for mistake in (lambda wrong=wrong: kind(*first, **{wrong: 1}), lambda wrong=wrong: setattr(config, wrong, 1)):
            with pytest.raises(ValueError, match=rf"{wrong}: {kind.__name__} has no such field; did you mean '"):
                mistake()


def test_the_documented_messages() -> None:
    with pytest.raises(ValueError, match=r"^Invalid number of models"):
        MultiModelConfig(num_models=0)
    for make in (LLMBackend, lambda name: LLMConfig(backend=name)):
        with pytest.raises(ValueError, match=r"^Unsupported LLM backend: 'tpu'"):
            make("tpu")
    with pytest.raises(ValueError, match=r"dropout 0\.2: has no effect"):
        LoRAConfig(lora_id=1, dropout=0.2)
    assert LoRAConfig(lora_id=3).adapter() == AdapterConfig(
        rank=16, alpha=32.0, targets=("q_proj", "v_proj", "k_proj", "o_proj")
    )


def test_a_key_is_shown_nowhere() -> None:
    config = LLMConfig(backend=LLMBackend.OPENAI_API, api_key="sk-secret")
    assert config.api_key == "sk-secret"
    assert "secret" not in repr(config) + str(config) + json.dumps(as_json(config))
    with pytest.raises(ValueError, match="api_key") as found:
        LLMConfig(api_key=["sk-secret"])  # type: ignore[arg-type]
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"api_key": "k"}, "api_key: has no effect with backend huggingface"),
        ({"api_base": "http://localhost:1"}, "api_base .*: has no effect with backend huggingface"),
        ({"lora_rank": 4}, "lora_rank 4: has no effect with backend huggingface, enable_lora False"),
        ({"backend": LLMBackend.OPENAI_API, "device": "cpu"}, "device 'cpu': has no effect with backend openai_api"),
        (
            {"backend": LLMBackend.ANTHROPIC, "enable_lora": True},
            "enable_lora True: has no effect with backend anthropic",
        ),
        ({"backend": LLMBackend.VLLM, "update_strategy": UpdateStrategy.FROZEN}, "update_strategy .*: has no effect"),
    ],
)
def test_what_the_backend_does_not_read_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LLMConfig(**values).check_effects()
