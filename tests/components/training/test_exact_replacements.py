"""Models whose attention and output layer are replaced when they are loaded, and those that keep their own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from components.config import AdapterConfig
from components.models.adapters import add_adapter
from components.training import forward, row_attention
from components.training.architectures import replace_where_exact
from components.training.checkpoint import load_model
from components.training.forward import completion_logprobs, find_plain_layer, logprobs_and_entropies
from components.training.packing import pack_groups
from components.training.row_attention import ROW_ATTENTION
from tests.components.model_types import GROUPED, MODEL_TYPES


def kept(model: Any) -> tuple[bool, bool]:
    """Whether the model keeps its own attention, and gives logits."""
    replace_where_exact(model)
    return model.config._attn_implementation != ROW_ATTENTION, find_plain_layer(model) is None


@pytest.mark.parametrize(
    ("name", "keeps_attention", "gives_logits"),
    [
        ("qwen3", False, False),
        ("gpt2", False, False),
        ("phi", False, False),  # its output layer has a bias
        ("deepseek-v3", True, False),  # its keys and values differ in width
        ("doge", True, False),  # it makes masks of its own, with weights
        ("falcon", True, False),
        ("granite", False, True),
        ("cohere", False, True),
    ],
)
def test_what_a_trial_replaces(name: str, keeps_attention: bool, gives_logits: bool) -> None:
    assert kept(MODEL_TYPES[name].model()) == (keeps_attention, gives_logits)


def test_a_capped_or_adapted_output_layer_gives_logits() -> None:
    capped = hf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=64, final_logit_softcapping=30.0)
    assert kept(hf.Gemma2ForCausalLM(capped).eval())[1]
    model = MODEL_TYPES["llama"].model()
    assert not kept(model)[1]
    add_adapter(model, "p", AdapterConfig(rank=2, targets=("lm_head",)), seed=0)
    assert find_plain_layer(model) is None


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
@pytest.mark.parametrize("trained", ["all", "adapter"])
def test_a_loaded_model_computes_as_it_did_with_masks_and_logits(
    kind: str, trained: str, make_model: Any, make_groups: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values and gradients of groups that share prompts at several temperatures, and tied embeddings: as near to those of
    float64 as before, to 1e-6 of their size."""
    monkeypatch.setattr(row_attention, "_LEAST_COLUMNS", 4)
    monkeypatch.setattr(row_attention, "_COST_OF_CALL", 0)
    make_model(kind=kind).save_pretrained(tmp_path)
    groups = [_with_temperature(group, number) for number, group in enumerate(make_groups(8, longest=20))]
    uses = {"calls": 0, "answers": 0}
    for target, name in (("plan_rows", "calls"), ("compute_at_layer", "answers")):
        monkeypatch.setattr(forward, target, _counted(getattr(forward, target), uses, name))
    results = []
    for model in (make_model(kind=kind).double(), make_model(kind=kind), load_model(tmp_path)):
        if trained == "adapter":
            add_adapter(model, "p", AdapterConfig(rank=2, targets=("q_proj", "v_proj")), seed=0)
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(0))
        before, found = dict(uses), []
        batches = pack_groups(groups, tokens_per_micro_batch=256, share_prompts=True)
        for batch in batches:
            logprobs, entropies = logprobs_and_entropies(model, batch, temperature=0.7, entropy_gradient=False)
            (logprobs * torch.from_numpy(batch.advantages_N)).sum().backward()
            with torch.no_grad():
                assert torch.equal(completion_logprobs(model, batch, temperature=0.7), logprobs)
            found += [logprobs.detach(), entropies]
        found.append(torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]))
        results.append(found)
    # In the loop's last round, each with and without a gradient.
    assert {name: uses[name] - before[name] for name in uses} == {name: 2 * len(batches) for name in uses}
    for exact, before, mine in zip(*results, strict=True):
        error = float((before - exact).norm())
        assert float((mine - exact).norm()) <= error + 1e-6 * float(exact.norm())


def _with_temperature(group: Any, number: int) -> Any:
    return replace(group, temperature=(None, 0.5, 1.5)[number % 3])


def _counted(function: Any, uses: dict[str, int], name: str) -> Any:
    def count(*arguments: Any, **named: Any) -> Any:
        found = function(*arguments, **named)
        uses[name] += name == "answers" or bool(found and found.calls)
        return found

    return count
