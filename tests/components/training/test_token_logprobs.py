import math

import pytest
import torch

from components.training import token_logprobs as module
from components.training.token_logprobs import EntropyNeed, token_logprobs


def _inputs(dtype: torch.dtype, *, num_cells: int = 37, vocabulary: int = 53) -> tuple[torch.Tensor, ...]:
    """Logits, divisors, cells in no order of which some predict several tokens and some none, and targets."""
    random = torch.Generator().manual_seed(3)
    logits_C_V = (torch.randn(num_cells, vocabulary, generator=random) * 4).to(dtype).requires_grad_()
    divisors_C = torch.rand(num_cells, generator=random) + 0.5
    cells_N = torch.randint(0, num_cells, (90,), generator=random)
    assert len(set(cells_N.tolist())) < num_cells
    return logits_C_V, divisors_C, cells_N, torch.randint(0, vocabulary, (90,), generator=random)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("need", [EntropyNeed(), EntropyNeed(True), EntropyNeed(True, True)], ids=str)
@pytest.mark.parametrize("num_rows", [1, 4, 36, 37])
def test_blocks_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, need: EntropyNeed, num_rows: int
) -> None:
    found = []
    for most in (2**22, 0):
        logits_C_V, *others = _inputs(dtype)
        monkeypatch.setattr(module, "_MOST_ELEMENTS_AT_ONCE", most)
        monkeypatch.setattr(module, "_ELEMENTS_PER_BLOCK", {"cpu": num_rows * 53, "cuda": 1})
        logprobs_N, entropies_N = token_logprobs(logits_C_V, *others, need)
        total = (logprobs_N * torch.linspace(-1, 1, 90)).sum()
        if entropies_N is not None:
            assert entropies_N.requires_grad is need.gradient
            total = total + (entropies_N * torch.linspace(1, 2, 90)).sum()
        total.backward()
        found.append([logprobs_N, entropies_N, logits_C_V.grad])
    for whole, blocks in zip(*found, strict=True):
        assert (whole is None and blocks is None) or torch.equal(whole, blocks)


def test_the_documented_example() -> None:
    logits_C_V = torch.tensor([[0.0, math.log(3)]])
    logprobs_N, entropies_N = token_logprobs(
        logits_C_V, torch.ones(1), torch.tensor([0, 0]), torch.tensor([0, 1]), EntropyNeed(True)
    )
    assert logprobs_N.tolist() == pytest.approx([math.log(0.25), math.log(0.75)])
    assert entropies_N is not None
    assert entropies_N.tolist() == pytest.approx([0.5623, 0.5623], abs=1e-4)


def test_nothing_is_predicted_at_no_cells() -> None:
    logits_C_V = torch.zeros(0, 5, requires_grad=True)
    nothing = torch.zeros(0, dtype=torch.int64)
    logprobs_N, entropies_N = token_logprobs(logits_C_V, torch.ones(0), nothing, nothing, EntropyNeed(True))
    assert logprobs_N.shape == (0,)
    assert entropies_N is not None
    assert entropies_N.shape == (0,)
    logprobs_N.sum().backward()
    assert logits_C_V.grad is not None
