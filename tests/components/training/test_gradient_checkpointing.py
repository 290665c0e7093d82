"""Gradient checkpointing: the same gradients from a packed batch, with fewer activations kept and each layer run twice."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from components.algorithms.losses import minibatch_loss
from components.config import AdapterConfig
from components.errors import ConfigurationError
from components.models.adapters import add_adapter
from components.training.gradient_checkpointing import recompute_activations
from components.training.packing import pack_groups
from components.training.rank_batches import minibatch_size, record_logprobs
from components.training.ranks import Ranks
from components.training.reference_logprobs import Recorded, loss_inputs

ADAPTER = AdapterConfig(rank=4, alpha=8.0, targets=("q_proj", "v_proj", "up_proj"))


def _backward(model: Any, groups: list[Any], job: Any) -> tuple[float, dict[str, torch.Tensor], int, int]:
    """The loss, the gradients, the bytes that the forward keeps, and how often the first layer's MLP began."""
    kept: dict[int, int] = {}
    runs = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    hook = model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: runs.append(1))
    (batch,) = pack_groups(groups, tokens_per_micro_batch=4096, share_prompts=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = minibatch_loss(loss_inputs(model, batch, job, Recorded()), job.loss, size=minibatch_size(groups))
    loss.backward()
    hook.remove()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    return loss.item(), gradients, max(sum(kept.values()) - parameters, 0), len(runs)


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
@pytest.mark.parametrize("adapted", [False, True])
def test_gradients_are_those_of_kept_activations_and_less_is_kept(
    make_model: Callable[..., Any],
    make_groups: Callable[..., list[Any]],
    make_job: Callable[..., Any],
    kind: str,
    adapted: bool,
) -> None:
    model, groups = make_model(kind=kind), make_groups(12, group_size=8)
    if adapted:
        add_adapter(model, "p", ADAPTER, seed=0)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.1)
    recomputing = copy.deepcopy(model)
    recompute_activations(recomputing)
    recompute_activations(recomputing)
    loss, gradients, num_bytes, num_runs = _backward(model, groups, make_job())
    again_loss, again, fewer_bytes, more_runs = _backward(recomputing, groups, make_job())
    assert again_loss == loss
    assert again.keys() == gradients.keys()
    assert all(("lora" in name) == adapted for name in gradients)
    for name, gradient in gradients.items():
        assert gradient.abs().max() > 0
        assert torch.allclose(again[name], gradient, rtol=1e-6, atol=1e-9)
    assert (num_runs, more_runs) == (1, 2)
    assert fewer_bytes < 0.6 * num_bytes


def test_layers_alone_count_as_training_and_nothing_drops_out(make_model: Callable[..., Any]) -> None:
    from transformers import OPTConfig, OPTForCausalLM

    config = OPTConfig(
        vocab_size=30, hidden_size=16, ffn_dim=32, num_hidden_layers=2, num_attention_heads=2, word_embed_proj_dim=16,
        max_position_embeddings=64, dropout=0.5, attention_dropout=0.5,
    )  # fmt: skip
    model = OPTForCausalLM(config).eval()
    tokens = torch.arange(12)[None]
    wanted = model(tokens).logits
    recompute_activations(model)
    assert torch.equal(model(tokens).logits, wanted)
    assert [name for name, module in model.named_modules() if module.training] == [
        "model.decoder.layers.0",
        "model.decoder.layers.1",
    ]


def test_recording_log_probabilities_is_the_same(
    make_model: Callable[..., Any], make_groups: Callable[..., list[Any]], make_job: Callable[..., Any]
) -> None:
    model, groups = make_model(), make_groups(4)
    training = make_job().training
    wanted = record_logprobs(model, groups, training=training, temperature=1.0, ranks=Ranks()).values
    recompute_activations(model)
    assert torch.equal(record_logprobs(model, groups, training=training, temperature=1.0, ranks=Ranks()).values, wanted)


def test_a_model_without_such_layers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"training\.gradient_checkpointing True: Linear has no layers"):
        recompute_activations(nn.Linear(2, 2))
