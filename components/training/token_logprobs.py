"""Log-probabilities and entropies at a model's logits, in blocks of rows where the vocabulary is large.

The logits of a micro-batch are its largest tensor: in float32, 5,000 cells over 49,152 tokens take 1 GB, and a softmax, an
entropy and their gradients several times that. Rows do not depend on each other, so a block of them that fits a core's cache
gives the same bits, sooner; what it computes on the way is computed again in the backward pass, not kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_MOST_ELEMENTS_AT_ONCE = 2**22
"""Logits up to this many are one block whose values are kept: computing them twice would cost more."""
_NEVER = -1e30
"""A logit whose probability is 0 at every temperature, and whose part of an entropy is 0 and not NaN."""
_ELEMENTS_PER_BLOCK = {"cpu": 2**19, "cuda": 2**24}
"""2 MiB, a core's cache; and 64 MiB, few kernels."""


@dataclass(frozen=True, slots=True)
class EntropyNeed:
    """Whether entropies are needed, and their gradient too."""

    values: bool = False
    gradient: bool = False


def token_logprobs(
    logits_C_V: Tensor, divisors_C: Tensor, cells_N: Tensor, targets_N: Tensor, need: EntropyNeed
) -> tuple[Tensor, Tensor | None]:
    """The float32 log-probabilities (N,) of `targets_N` at `cells_N`, and the entropies (N,) there, in nats, if needed.

    The distribution is `softmax(logits / divisor)` of the cell, which may predict several tokens. Without `need.gradient` the
    entropies are detached, which saves the memory of their graph.

    **Example** logits [[0, log 3]], divisors [1], cells [0, 0], targets [0, 1]: log-probabilities log .25 and log .75, and the
    entropy .562 twice.
    """
    if logits_C_V.numel() <= _MOST_ELEMENTS_AT_ONCE:
        logprobs_N, entropies_C = _of_block(logits_C_V, divisors_C, cells_N, targets_N, need)
        return logprobs_N, entropies_C[cells_N] if need.values else None
    order_N = torch.argsort(cells_N, stable=True)
    logprobs_N, entropies_C = _Blocks.apply(  # type: ignore[no-untyped-call]
        logits_C_V, divisors_C, cells_N[order_N], targets_N[order_N], need
    )
    return logprobs_N[torch.argsort(order_N)], entropies_C[cells_N] if need.values else None


def choice_logprobs(
    logits_C_V: Tensor,
    divisors_C: Tensor,
    cells_N: Tensor,
    targets_N: Tensor,
    need: EntropyNeed,
    allowed_C_A: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """`token_logprobs` where a cell's tokens are drawn among `allowed_C_A` alone; a negative entry is none, and a cell without
    entries allows all.

    **Example** logits [[0, log 3, 5]], divisor 1, allowed [[0, 1]]: log-probabilities log .25 and log .75 of tokens 0 and 1.
    """
    chooses_C = allowed_C_A[:, 0] >= 0
    logprobs_N = divisors_C.new_zeros(len(cells_N))
    entropies_N = divisors_C.new_zeros(len(cells_N)) if need.values else None
    for chosen in (True, False):
        cells = torch.nonzero(chooses_C == chosen)[:, 0]
        tokens = torch.nonzero(chooses_C[cells_N] == chosen)[:, 0]
        if not len(tokens):
            continue
        place_of_C = torch.zeros_like(chooses_C, dtype=torch.long).index_copy(
            0, cells, torch.arange(len(cells), device=cells.device)
        )
        logits, places, targets = logits_C_V[cells], place_of_C[cells_N[tokens]], targets_N[tokens]
        if chosen:
            allowed = allowed_C_A[cells]
            logits = logits.gather(1, allowed.clamp(min=0)).float()
            logits = logits.masked_fill(allowed < 0, _NEVER)
            targets = (allowed[places] == targets[:, None]).int().argmax(1)
        found, entropies = token_logprobs(logits, divisors_C[cells], places, targets, need)
        logprobs_N = logprobs_N.index_copy(0, tokens, found)
        if entropies_N is not None and entropies is not None:
            entropies_N = entropies_N.index_copy(0, tokens, entropies)
    return logprobs_N, entropies_N


class _Blocks(torch.autograd.Function):
    """`_of_block` for one block of cells after the other; `cells_N` ascend."""

    @staticmethod
    def forward(
        ctx: Any, logits_C_V: Tensor, divisors_C: Tensor, cells_N: Tensor, targets_N: Tensor, need: EntropyNeed
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(logits_C_V, divisors_C, cells_N, targets_N)
        ctx.need = need
        found = [_of_block(*block, need) for block in _blocks(logits_C_V, divisors_C, cells_N, targets_N)]
        logprobs_N, entropies_C = (torch.cat(parts) for parts in zip(*found, strict=True))
        if not need.gradient:
            ctx.mark_non_differentiable(entropies_C)
        return logprobs_N, entropies_C

    @staticmethod
    def backward(ctx: Any, gradient_N: Tensor, gradient_C: Tensor) -> Any:
        logits_C_V, divisors_C, cells_N, targets_N = ctx.saved_tensors
        gradient_C_V = torch.empty_like(logits_C_V)
        token, cell = 0, 0
        for block in _blocks(logits_C_V, divisors_C, cells_N, targets_N):
            logits = block[0].detach().requires_grad_()
            with torch.enable_grad():
                results = _of_block(logits, *block[1:], ctx.need)
            gradients = gradient_N[token : token + len(block[2])], gradient_C[cell : cell + len(logits)]
            num_differentiable = 2 if ctx.need.gradient else 1
            (found,) = torch.autograd.grad(results[:num_differentiable], logits, gradients[:num_differentiable])
            gradient_C_V[cell : cell + len(logits)] = found
            token, cell = token + len(block[2]), cell + len(logits)
        return gradient_C_V, None, None, None, None


def _blocks(
    logits_C_V: Tensor, divisors_C: Tensor, cells_N: Tensor, targets_N: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """The arguments in blocks of cells, counted from each block's first."""
    most = _ELEMENTS_PER_BLOCK.get(logits_C_V.device.type, _ELEMENTS_PER_BLOCK["cuda"])
    num_rows = max(1, most // logits_C_V.shape[1])
    logits = torch.split(logits_C_V, num_rows)
    counts = torch.bincount(cells_N // num_rows, minlength=len(logits)).tolist()
    divisors, cells = torch.split(divisors_C, num_rows), torch.split(cells_N % num_rows, counts)
    yield from zip(logits, divisors, cells, torch.split(targets_N, counts), strict=True)


def _of_block(
    logits_C_V: Tensor, divisors_C: Tensor, cells_N: Tensor, targets_N: Tensor, need: EntropyNeed
) -> tuple[Tensor, Tensor]:
    """The log-probabilities (N,) of the targets and the entropies (C,) of the cells, which are empty if not needed."""
    logprobs_C_V = (logits_C_V.float() / divisors_C[:, None]).log_softmax(-1)
    entropies_C = divisors_C.new_empty(0)
    if need.values:
        with torch.set_grad_enabled(need.gradient and torch.is_grad_enabled()):
            entropies_C = -(logprobs_C_V.exp() * logprobs_C_V).sum(-1)
    return logprobs_C_V[cells_N, targets_N], entropies_C
