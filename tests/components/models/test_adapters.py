"""Adapters in a live module, compared with explicit matrix products and with PEFT's own reader."""

import json
import re
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.pytorch_utils import Conv1D

from components.config import AdapterConfig
from components.errors import ArtifactCorrupt, ConfigurationError
from components.models.adapters import (
    adapter_tensors,
    add_adapter,
    base_alone,
    has_adapter,
    load_adapter,
    read_adapter_config,
    use_adapter,
    write_adapter,
)
from components.models.digests import model_digest, model_tensors, tensors_digest

ADAPTER = AdapterConfig(rank=3, alpha=6.0, targets=("q_proj", "down_proj"))
TOKENS = torch.tensor([[1, 2, 3, 4, 5]])


def base_model(seed: int = 0) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    shape = Qwen3Config(
        vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=8,
        intermediate_size=24, max_position_embeddings=32, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    return Qwen3ForCausalLM(shape).eval()


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(TOKENS).logits


def stir(model: torch.nn.Module, policy: str, seed: int) -> None:
    """Give the adapter random values, so that it changes something."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in adapter_tensors(model, policy).values():
            tensor.copy_(torch.randn(tensor.shape, generator=generator))


def test_a_new_adapter_changes_nothing_and_leaves_the_base_as_it_was() -> None:
    model = base_model()
    before, digest = logits(model), model_digest(model)
    add_adapter(model, "planner", ADAPTER, seed=1)
    assert torch.equal(logits(model), before)
    assert tensors_digest(base_tensors(model)) == digest
    assert not any(tensor.requires_grad for tensor in base_tensors(model).values())
    assert {name.split(".")[-3] for name in adapter_tensors(model, "planner")} == {"q_proj", "down_proj"}


def test_an_adapter_adds_its_scaled_product_to_the_weight() -> None:
    model, other = base_model(), base_model()
    add_adapter(model, "planner", ADAPTER, seed=1)
    stir(model, "planner", 2)
    tensors = adapter_tensors(model, "planner")
    with torch.no_grad():
        for name, weight in model_tensors(other).items():
            stem = "base_model.model." + name.removesuffix(".weight")
            if f"{stem}.lora_A.weight" in tensors:
                weight += 6.0 / 3 * tensors[f"{stem}.lora_B.weight"] @ tensors[f"{stem}.lora_A.weight"]
    assert torch.allclose(logits(model), logits(other), atol=1e-5)
    assert not torch.allclose(logits(model), logits(base_model()), atol=1e-2)


def test_equal_seeds_give_equal_adapters_whatever_torch_drew_before() -> None:
    models = []
    for drawn in (0, 7):
        model = base_model()
        torch.rand(drawn)
        add_adapter(model, "p", ADAPTER, seed=5)
        models.append(model)
    digests = {tensors_digest(adapter_tensors(model, "p")) for model in models}
    assert len(digests) == 1
    add_adapter(models[0], "q", ADAPTER, seed=6)
    assert tensors_digest(adapter_tensors(models[0], "q")) not in digests


def test_adapters_of_one_base_take_turns() -> None:
    model = base_model()
    alone = logits(model)
    answers = {}
    for seed, policy in enumerate(("planner", "tool agent", "a.b")):
        add_adapter(model, policy, ADAPTER, seed=seed)
        stir(model, policy, seed)
        answers[policy] = logits(model)
    for policy, answer in answers.items():
        use_adapter(model, policy)
        assert torch.equal(logits(model), answer)
        trained = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
        assert trained == {id(tensor) for tensor in adapter_tensors(model, policy).values()}
    with base_alone(model):
        assert torch.equal(logits(model), alone)
    assert torch.equal(logits(model), answers["a.b"])


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT reads a deprecated name
def test_a_written_adapter_is_read_back_and_peft_reads_it_too(tmp_path: Path) -> None:
    model = base_model()
    add_adapter(model, "planner", ADAPTER, seed=1)
    stir(model, "planner", 3)
    tensors, answer = adapter_tensors(model, "planner"), logits(model)
    write_adapter(tensors, ADAPTER, tmp_path)
    assert read_adapter_config(tmp_path) == AdapterConfig(rank=3, alpha=6.0, targets=("down_proj", "q_proj"))
    fresh = base_model()
    assert not has_adapter(fresh, "planner")
    assert load_adapter(fresh, "planner", tmp_path) == tensors_digest(tensors)
    assert torch.equal(logits(fresh), answer)
    assert torch.allclose(logits(PeftModel.from_pretrained(base_model(), tmp_path)), answer, atol=1e-6)
    stir(fresh, "planner", 4)
    assert load_adapter(fresh, "planner", tmp_path) == tensors_digest(tensors)
    assert torch.equal(logits(fresh), answer)


def test_equal_adapters_have_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        model = base_model()
        add_adapter(model, name, ADAPTER, seed=1)
        write_adapter(adapter_tensors(model, name), ADAPTER, tmp_path / name)
    for file in ("adapter_model.safetensors", "adapter_config.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_targets_that_the_model_lacks_are_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"policies\.p\.adapter\.targets \['nowhere'\]"):
        add_adapter(base_model(), "p", AdapterConfig(targets=("nowhere",)), seed=0)


@pytest.mark.parametrize(
    ("layer", "told"), [("embed_tokens", "Embedding"), ("conv", "Conv1D"), ("grid", "Conv2d"), ("heads", "Multihead")]
)
def test_layers_that_are_not_linear_are_refused(layer: str, told: str) -> None:
    model = base_model()
    model.conv, model.grid = Conv1D(4, 16), torch.nn.Conv2d(1, 1, 2)
    model.heads = torch.nn.MultiheadAttention(4, 2)
    with pytest.raises(ConfigurationError, match=rf"adapter\.targets.* {told}"):
        add_adapter(model, "p", AdapterConfig(targets=("q_proj", layer)), seed=0)


def test_another_shape_and_damaged_files_are_refused(tmp_path: Path) -> None:
    model = base_model()
    add_adapter(model, "p", ADAPTER, seed=1)
    write_adapter(adapter_tensors(model, "p"), ADAPTER, tmp_path)
    other = base_model()
    add_adapter(other, "p", AdapterConfig(rank=2, alpha=6.0, targets=("q_proj",)), seed=1)
    with pytest.raises(ArtifactCorrupt, match="other layers or shapes"):
        load_adapter(other, "p", tmp_path)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ArtifactCorrupt, match="cannot be read"):
        load_adapter(base_model(), "p", tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 3}))
    with pytest.raises(ArtifactCorrupt, match="describes no adapter"):
        read_adapter_config(tmp_path)


def base_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """`model_tensors` as they were before adapters were added: without them, under the old names."""
    return {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in model_tensors(model).items()
        if not re.search(r"\.lora_[AB]\.", name)
    }
