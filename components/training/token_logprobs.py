"""Log-probabilities and entropies of tokens at a language model's output layer, without a matrix of tokens x vocabulary.

The logits of a micro-batch would be its largest tensor: in float32, 5,000 cells over 49,152 tokens take 1 GB, and their
gradient another. Rows do not depend on each other, so blocks of them are computed in one buffer. Where the layer is not
trained, forward keeps the gradient of each log p(y) by a hidden state, (W[y] - p W) / divisor, of hidden width: as many
products as whole logits take. Where it is trained, backward computes the logits again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_NEVER = -1e30
"""A logit whose probability is 0 at every temperature, and whose part of an entropy is 0 and not NaN."""
_ELEMENTS_PER_BLOCK = {"cpu": 2**23, "cuda": 2**25}
"""Of a product: 32 MiB in float32, enough rows for its speed; and 128 MiB, few kernels."""
_ELEMENTS_PER_PART = {"cpu": 2**19, "cuda": 2**25}
"""Of everything else: 2 MiB, a core's cache."""


@dataclass(frozen=True, slots=True)
class EntropyNeed:
    """Whether entropies are needed, and their gradient too."""

    values: bool = False
    gradient: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TokenQuery:
    """P tokens of C distributions `softmax(logits / divisor)`: pairs that differ, in the order of their distributions.

    A token of a distribution is among its `allowed_C_A`; a negative entry is none, a row without entries allows all, and so
    does None.
    """

    divisors_C: Tensor
    distributions_P: Tensor
    targets_P: Tensor
    need: EntropyNeed = EntropyNeed()
    allowed_C_A: Tensor | None = None

    def scale(self, logits: Tensor, cells: slice) -> None:
        """Divide the logits of some distributions in place, and take away what is not allowed there."""
        logits.div_(self.divisors_C[cells, None])
        if self.allowed_C_A is not None:
            allowed = self.allowed_C_A[cells]
            places = torch.where(allowed < 0, allowed[:, :1], allowed).clamp(min=0)
            excluded = torch.ones_like(logits, dtype=torch.bool).scatter_(1, places, False)
            logits.masked_fill_(excluded & (allowed[:, :1] >= 0), _NEVER)


def compute_at_layer(hidden_C_X: Tensor, layer: nn.Linear, query: TokenQuery) -> Tensor:
    """The log-probability of each pair and, if needed, the entropy of its distribution, in nats: float32 (P, 1 or 2).

    The logits are those of `layer`. Without `need.gradient` no gradient comes from the entropies.

    **Example** hidden states [[1]], weights [[0], [log 3]], divisors [1], distributions [0, 0], targets [0, 1]:
    log-probabilities log .25 and log .75, and the entropy .562 twice.
    """
    return _stack(_Probabilities.apply(hidden_C_X, layer.weight, layer.bias, query), query)  # type: ignore[no-untyped-call]


def compute_at_logits(logits_C_V: Tensor, query: TokenQuery) -> Tensor:
    """`compute_at_layer` from whole logits, of a model that changes what its output layer gives."""
    return _stack(_Probabilities.apply(logits_C_V, None, None, query), query)  # type: ignore[no-untyped-call]


def _stack(found: tuple[Tensor, Tensor], query: TokenQuery) -> Tensor:
    logprobs_P, entropies_C = found
    return torch.stack([logprobs_P, *([entropies_C[query.distributions_P]] if query.need.values else [])], dim=1)


class _Probabilities(torch.autograd.Function):
    """Log-probabilities (P,) and entropies (C,), which are empty if not needed. Without a weight the inputs are logits."""

    @staticmethod
    def forward(
        ctx: Any, inputs_C_X: Tensor, weight_V_X: Tensor | None, bias_V: Tensor | None, query: TokenQuery
    ) -> tuple[Tensor, Tensor]:
        of_inputs, *of_layer = ctx.needs_input_grad[:3]
        need, new_empty = query.need, query.divisors_C.new_empty
        keeps_slopes = of_inputs and weight_V_X is not None and not any(of_layer) and not need.gradient
        logprobs_P, slopes_P_X = new_empty(len(query.targets_P)), None
        if keeps_slopes:
            slopes_P_X = new_empty(len(query.targets_P), inputs_C_X.shape[1])
        tops_C, rests_C, entropies_C = (new_empty(len(inputs_C_X)) for _ in range(3))
        best_C = torch.empty_like(tops_C, dtype=torch.int64)
        for block in _blocks(inputs_C_X, weight_V_X, bias_V, query):
            block.multiply()
            logprobs_P[block.pairs] = block.logits[block.rows_P, block.targets_P]
            for cells, logits, others in block.list_parts():
                query.scale(logits, cells)
                tops_C[cells], best_C[cells] = logits.max(-1)
                logits.sub_(tops_C[cells, None])
                odds = torch.exp(logits, out=others if need.values else logits)
                # Apart from the most probable token's: 1 - p of one that is nearly certain keeps its digits.
                rests_C[cells] = odds.scatter_(1, best_C[cells, None], 0.0).sum(-1)
                if need.values:
                    entropies_C[cells] = -logits.mul_(odds).sum(-1)
                if slopes_P_X is not None and need.values:
                    logits.copy_(odds)
            if slopes_P_X is not None:
                slopes_P_X[block.pairs] = block.compute_slopes(best_C[block.cells], rests_C[block.cells])
        of_pairs = query.distributions_P
        logprobs_P.div_(query.divisors_C[of_pairs]).sub_(tops_C[of_pairs]).sub_(rests_C.log1p()[of_pairs])
        entropies_C = entropies_C.div_(1 + rests_C).add_(rests_C.log1p()) if need.values else new_empty(0)
        if slopes_P_X is None:
            ctx.save_for_backward(inputs_C_X, weight_V_X, bias_V, tops_C, rests_C, entropies_C, best_C)
        else:
            ctx.save_for_backward(slopes_P_X)
        ctx.query, ctx.shape, ctx.dtype, ctx.keeps_slopes = query, inputs_C_X.shape, inputs_C_X.dtype, keeps_slopes
        if not need.gradient:
            ctx.mark_non_differentiable(entropies_C)
        return logprobs_P, entropies_C

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient_P: Tensor, gradient_C: Tensor) -> Any:
        query: TokenQuery = ctx.query
        gradient_P = gradient_P / query.divisors_C[query.distributions_P]
        if ctx.keeps_slopes:
            (slopes_P_X,) = ctx.saved_tensors
            to_inputs = slopes_P_X.new_zeros(ctx.shape)
            to_inputs.index_add_(0, query.distributions_P, slopes_P_X * gradient_P[:, None])
            return to_inputs.to(ctx.dtype), None, None, None
        inputs_C_X, weight_V_X, bias_V, tops_C, rests_C, entropies_C, best_C = ctx.saved_tensors
        to_inputs = torch.empty_like(inputs_C_X) if ctx.needs_input_grad[0] else None
        to_weight = torch.zeros_like(weight_V_X, dtype=torch.float32) if ctx.needs_input_grad[1] else None
        to_bias = torch.zeros_like(bias_V, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        # As if the most probable token were each pair's, and then what the others are away from that: 1 - p keeps its digits.
        apart_P = gradient_P * (query.targets_P != best_C[query.distributions_P])
        sums_C, apart_C = (
            torch.zeros_like(tops_C).index_add_(0, query.distributions_P, each) for each in (gradient_P, apart_P)
        )
        at_best_C = sums_C * rests_C / (1 + rests_C) - apart_C
        if query.need.gradient:
            slopes_C, offsets_C = gradient_C / query.divisors_C, entropies_C - rests_C.log1p()
            at_best_C -= slopes_C * offsets_C / (1 + rests_C)
        for block in _blocks(inputs_C_X, weight_V_X, bias_V, query):
            block.multiply()
            for cells, logits, others in block.list_parts():
                query.scale(logits, cells)
                logits.sub_(tops_C[cells, None])
                scales = -1 / (1 + rests_C[cells, None])
                if query.need.gradient:
                    torch.exp(logits, out=others)
                    logits.add_(offsets_C[cells, None]).mul_(slopes_C[cells, None]).add_(sums_C[cells, None])
                    logits.mul_(others).mul_(scales)
                else:
                    logits.exp_().mul_(scales * sums_C[cells, None])
            block.logits.scatter_(1, best_C[block.cells, None], at_best_C[block.cells, None])
            block.logits[block.rows_P, block.targets_P] += apart_P[block.pairs]
            block.add_gradients(to_inputs, to_weight, to_bias)
        casts = ((to_weight, weight_V_X), (to_bias, bias_V))
        return to_inputs, *(None if found is None else found.to(like.dtype) for found, like in casts), None


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some rows: their places among cells and pairs, and the buffers that they share with other blocks."""

    cells: slice
    pairs: slice
    rows_P: Tensor
    targets_P: Tensor
    inputs: Tensor
    weight: Tensor | None
    bias: Tensor | None
    logits: Tensor
    others: Tensor
    """For one part, as large as the largest; empty if entropies are not needed."""
    products: Tensor | None
    """In the type that the model computes in; None for float32, in which it is `logits`."""

    def multiply(self) -> None:
        """Write the logits, float32."""
        out = self.logits if self.products is None else self.products
        if self.weight is None:
            out = self.inputs
        elif self.bias is None:
            torch.mm(self.inputs, self.weight.t(), out=out)
        else:
            torch.addmm(self.bias, self.inputs, self.weight.t(), out=out)
        if out is not self.logits:
            self.logits.copy_(out)

    def list_parts(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Cells, their logits, and as large a buffer beside them."""
        num_rows = max(1, _find_limit(_ELEMENTS_PER_PART, self.logits) // self.logits.shape[1])
        for start, part in enumerate(self.logits.split(num_rows)):
            first = self.cells.start + start * num_rows
            yield slice(first, first + len(part)), part, self.others[: len(part)]

    def compute_slopes(self, best: Tensor, rests: Tensor) -> Tensor:
        """W[y] - p W of each pair, float32, where `logits` hold p / p(best), and 0 at the best.

        p W is W[best] and, of the others, what each is away from it: nothing cancels where p(best) is nearly 1.
        """
        assert self.weight is not None, "slopes of an output layer without a weight"
        others = (self._cast(self.logits) @ self.weight).float()
        from_best = others.sub_(rests[:, None] * self.weight[best]).div_(-(1 + rests[:, None]))
        best_P = best[self.rows_P]
        return (self.weight[self.targets_P].float() - self.weight[best_P].float()).add_(from_best[self.rows_P])

    def add_gradients(self, to_inputs: Tensor | None, to_weight: Tensor | None, to_bias: Tensor | None) -> None:
        """Write the part of `to_inputs`, and add to the others, where `logits` hold their gradient."""
        cast = self._cast(self.logits)
        if to_inputs is not None:
            to_inputs[self.cells] = cast if self.weight is None else cast @ self.weight
        if to_weight is not None:
            if cast.dtype == to_weight.dtype:
                to_weight.addmm_(cast.t(), self.inputs)
            else:  # sums over blocks stay float32
                to_weight.add_(cast.t() @ self.inputs)
        if to_bias is not None:
            to_bias.add_(self.logits.sum(0))

    def _cast(self, values: Tensor) -> Tensor:
        return values if self.products is None else self.products.copy_(values)


def _find_limit(limits: Mapping[str, int], tensor: Tensor) -> int:
    return limits["cpu" if tensor.device.type == "cpu" else "cuda"]


def _blocks(inputs: Tensor, weight: Tensor | None, bias: Tensor | None, query: TokenQuery) -> Iterator[_Block]:
    """The rows of the inputs, one block after the other in the same buffers."""
    size = inputs.shape[1] if weight is None else len(weight)
    num_rows = min(max(1, _find_limit(_ELEMENTS_PER_BLOCK, inputs) // size), max(1, len(inputs)))
    # Reused: an allocator keeps what each block would free.
    logits = inputs.new_empty(num_rows, size, dtype=torch.float32)
    num_others = max(1, _find_limit(_ELEMENTS_PER_PART, inputs) // size) if query.need.values else 0
    others = logits.new_empty(min(num_rows, num_others), size)
    products = logits if inputs.dtype == torch.float32 else inputs.new_empty(num_rows, size)
    starts = range(0, len(inputs), num_rows)
    bounds = torch.searchsorted(query.distributions_P, torch.tensor([*starts, len(inputs)], device=inputs.device))
    for start, pairs in zip(starts, pairwise(bounds.tolist()), strict=True):
        cells, of_pairs = slice(start, min(start + num_rows, len(inputs))), slice(*pairs)
        some_logits, some_products = (each[: cells.stop - start] for each in (logits, products))
        yield _Block(
            cells=cells,
            pairs=of_pairs,
            rows_P=query.distributions_P[of_pairs] - start,
            targets_P=query.targets_P[of_pairs],
            inputs=inputs[cells],
            weight=weight,
            bias=bias,
            logits=some_logits,
            others=others,
            products=None if products is logits else some_products,
        )
