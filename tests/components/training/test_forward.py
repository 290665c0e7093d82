from dataclasses import replace

import numpy as np
import pytest
import torch

from components.training.architectures import replace_where_exact
from components.training.forward import completion_logprobs, logprobs_and_entropies
from components.training.packing import empty_micro_batch, pack_groups
from components.training.row_attention import attention_mask


def _alone(model, group, candidate: int, temperature: float) -> torch.Tensor:
    """Log-probabilities over the vocabulary at a completion's tokens, from a plain forward of it alone."""
    tokens = group.prompt_tokens + group.completions_K_T[candidate]
    logits = model(input_ids=torch.tensor([tokens])).logits[0, len(group.prompt_tokens) - 1 : -1]
    return (logits / temperature).log_softmax(-1)


@pytest.mark.parametrize("kind", ["qwen3", "llama"])
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_logprobs_and_entropies_equal_those_of_each_completion_alone(
    make_model, make_groups, kind: str, share: bool, temperature: float
) -> None:
    """Also of prompts that go on from others' completions, and of equal ones."""
    model, groups = make_model(kind=kind), make_groups(6)
    said = [group.prompt_tokens + group.completions_K_T[0] for group in groups]
    groups += [replace(group, prompt_tokens=before[-12:]) for group, before in zip(groups, said[1:], strict=False)]
    groups += [replace(group, prompt_tokens=before) for group, before in zip(groups[:6], said, strict=True)]
    groups.append(groups[0])
    for batch in pack_groups(groups, tokens_per_micro_batch=128, share_prompts=share):
        with torch.no_grad():
            logprobs, entropies = logprobs_and_entropies(model, batch, temperature=temperature, entropy_gradient=False)
            assert torch.equal(logprobs, completion_logprobs(model, batch, temperature=temperature))
        for g, k in {*zip(batch.groups_N.tolist(), batch.candidates_N.tolist(), strict=True)}:
            mine = torch.from_numpy((batch.groups_N == g) & (batch.candidates_N == k))
            with torch.no_grad():
                alone = _alone(model, groups[g], k, temperature)
            wanted = alone[torch.arange(len(alone)), torch.tensor(groups[g].completions_K_T[k])]
            assert (logprobs[mine] - wanted).abs().max() < 1e-5
            assert (entropies[mine] - torch.distributions.Categorical(logits=alone).entropy()).abs().max() < 1e-5


def test_the_documented_mask() -> None:
    mask = attention_mask(torch.tensor([[3, 2, 3, 4]]))
    assert mask.int().tolist() == [[[[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]]]


def test_padding_leaves_gradients_finite(make_model, make_groups) -> None:
    model = make_model()
    (batch,) = pack_groups(make_groups(6), tokens_per_micro_batch=4096, share_prompts=True)
    *_, shortest = batch.ends_S_T
    assert shortest[0] < len(shortest)
    completion_logprobs(model, batch, temperature=1.0).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("replaced", [False, True])
def test_an_empty_micro_batch_has_a_zero_gradient(make_model, replaced: bool) -> None:
    model = make_model()
    if replaced:
        replace_where_exact(model)
    completion_logprobs(model, empty_micro_batch(), temperature=1.0).sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_entropies_carry_a_gradient_only_when_asked(make_model, make_groups) -> None:
    model = make_model()
    (batch,) = pack_groups(make_groups(1), tokens_per_micro_batch=4096, share_prompts=True)
    for wanted in (True, False):
        _, entropies = logprobs_and_entropies(model, batch, temperature=1.0, entropy_gradient=wanted)
        assert entropies.requires_grad is wanted


def test_a_completion_does_not_see_its_siblings(make_model, make_groups) -> None:
    model = make_model()
    (batch,) = pack_groups(make_groups(1), tokens_per_micro_batch=4096, share_prompts=True)
    before = completion_logprobs(model, batch, temperature=1.0)
    second = batch.candidates_N == 1
    mine = np.setdiff1d(batch.columns_N[second], batch.columns_N[~second])
    batch.tokens_S_T[0, mine] = (batch.tokens_S_T[0, mine] + 1) % 30
    after = completion_logprobs(model, batch, temperature=1.0)
    changed = np.unique(batch.candidates_N[(before != after).numpy()])
    assert changed.tolist() == [1]
