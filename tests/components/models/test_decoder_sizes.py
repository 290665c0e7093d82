"""Closed forms against the models that transformers builds."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from components.config import AdapterConfig
from components.models.decoder_sizes import KNOWN, count_adapted, count_parameters, is_common_decoder

SHAPE = {
    "vocab_size": 100,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
CASES = [
    *KNOWN.values(),
    {"model_type": "llama", **SHAPE, "attention_bias": True, "tie_word_embeddings": False},
    {"model_type": "qwen2", **SHAPE},
    {"model_type": "qwen3", **SHAPE, "head_dim": 16, "tie_word_embeddings": True},
    {"model_type": "qwen3", **SHAPE, "head_dim": 8, "attention_bias": True},
]


@pytest.mark.parametrize("config", CASES, ids=lambda config: f"{config['model_type']}-{config['hidden_size']}")
def test_common_decoders_have_as_many_weights_as_they_are_built_with(config: dict[str, object]) -> None:
    assert is_common_decoder(config)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    assert count_parameters(config) == sum(parameter.numel() for parameter in model.parameters())
    adapter = AdapterConfig(rank=3, targets=("q_proj", "v_proj", "o_proj", "down_proj"))
    built = [
        each
        for name, each in model.named_modules()
        if isinstance(each, nn.Linear) and name.split(".")[-1] in adapter.targets
    ]
    assert count_adapted(config, [adapter] * 2) == 2 * sum(3 * (each.in_features + each.out_features) for each in built)


def test_other_architectures_are_left_to_a_model() -> None:
    assert not is_common_decoder({"model_type": "gpt2"})
    assert not is_common_decoder({"model_type": "llama", "mlp_bias": True})
