"""Log-probabilities and entropies from whole logits in blocks of a core's cache, as the trainer once computed them."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

_ELEMENTS_PER_BLOCK = 2**19


def logprobs_of_logits(logits_C_V: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
    """The log-probabilities of the targets at temperature 1, and the entropies in nats, without a gradient; both (C,)."""
    found: tuple[Tensor, Tensor] = _Blocks.apply(logits_C_V, targets_C)  # type: ignore[no-untyped-call]
    return found


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits_C_V: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(logits_C_V, targets_C)
        found = [_compute(*block) for block in _blocks(logits_C_V, targets_C)]
        logprobs_C, entropies_C = (torch.cat(parts) for parts in zip(*found, strict=True))
        ctx.mark_non_differentiable(entropies_C)
        return logprobs_C, entropies_C

    @staticmethod
    def backward(ctx: Any, gradient_C: Tensor, _: Tensor) -> Any:
        logits_C_V, targets_C = ctx.saved_tensors
        gradient_C_V, start = torch.empty_like(logits_C_V), 0
        for logits, targets in _blocks(logits_C_V, targets_C):
            end = start + len(logits)
            leaf = logits.detach().requires_grad_()
            with torch.enable_grad():
                logprobs, _ = _compute(leaf, targets)
            (gradient_C_V[start:end],) = torch.autograd.grad(logprobs, leaf, gradient_C[start:end])
            start = end
        return gradient_C_V, None


def _blocks(logits_C_V: Tensor, targets_C: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    num_rows = max(1, _ELEMENTS_PER_BLOCK // logits_C_V.shape[1])
    yield from zip(torch.split(logits_C_V, num_rows), torch.split(targets_C, num_rows), strict=True)


def _compute(logits_C_V: Tensor, targets_C: Tensor) -> tuple[Tensor, Tensor]:
    logprobs_C_V = logits_C_V.float().log_softmax(-1)
    with torch.no_grad():
        entropies_C = -(logprobs_C_V.exp() * logprobs_C_V).sum(-1)
    return logprobs_C_V.gather(1, targets_C[:, None])[:, 0], entropies_C
