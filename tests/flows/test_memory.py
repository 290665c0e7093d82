"""A run that cannot fit into memory does not start; the presets for one GPU fit into the one that they name."""

import json
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.training.memory import GIB
from flows import memory
from flows.memory import check_memory
from flows.presets import preset_config, preset_values

QWEN = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
"""The config.json of Qwen2.5-1.5B-Instruct, as far as it gives sizes."""


@pytest.fixture
def base(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    return f"policies.team.base={tmp_path}"


def with_memory(patch: pytest.MonkeyPatch, gib: float) -> None:
    patch.setattr(memory, "available_bytes", lambda device: int(gib * GIB))


@pytest.mark.parametrize("preset", [name for name in preset_values() if name.endswith("-qwen")])
def test_a_preset_for_one_gpu_fits_into_the_one_that_it_names(
    preset: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory(monkeypatch, 15.5)
    check_memory(preset_config(preset, [base]))
    with_memory(monkeypatch, 10)
    with pytest.raises(
        ConfigurationError, match=r"memory of device cuda: .* lower generation\.vllm\.gpu_memory_fraction"
    ):
        check_memory(preset_config(preset, [base]))


def test_the_largest_part_decides_the_advice(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 23.5)
    with pytest.raises(ConfigurationError, match=r"part is optimizer, 17\.3 GiB: train a policies\.<name>\.adapter"):
        check_memory(preset_config("math-qwen", [base, "policies.team.adapter=null"]))
    with pytest.raises(ConfigurationError, match=r"part is engine, 21\.1 GiB: lower generation\.vllm"):
        check_memory(preset_config("math-qwen", [base, "generation.vllm.gpu_memory_fraction=0.9"]))


def test_tiny_models_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 0)
    check_memory(preset_config("tiny", []))


def test_the_presets_of_smollm_fit_into_sixteen_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 15.5)
    for preset in ("math-smollm", "code-smollm", "search-smollm"):
        check_memory(preset_config(preset, []))
