"""Log-probabilities and entropies of tokens at a language model's output layer, without a matrix of tokens x vocabulary.

The logits of a micro-batch would be its largest tensor: in float32, 5,000 cells over 49,152 tokens take 1 GB, and their
gradient another. Rows do not depend on each other, so blocks of them are computed in one buffer. Where the layer is not
trained, forward keeps the gradient of each log p(y) by a hidden state, (W[y] - p W) / divisor, of hidden width: as many
products as whole logits take. Where it is trained, backward computes the logits again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_NEVER = -1e30
"""A logit whose probability is 0 at every temperature, and whose part of an entropy is 0 and not NaN."""
_ELEMENTS_PER_BLOCK = {"cpu": 2**23, "cuda": 2**26}
"""Of a product: 32 MiB in float32, enough rows for its speed; and 256 MiB, few kernels. Half as many in other types."""
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

    def split(self, num_cells: int) -> Iterator[tuple[slice, slice]]:
        """Blocks of so many distributions, and their pairs."""
        starts = [*range(0, len(self.divisors_C), num_cells), len(self.divisors_C)]
        bounds = torch.searchsorted(self.distributions_P, torch.tensor(starts, device=self.targets_P.device))
        for cells, pairs in zip(pairwise(starts), pairwise(bounds.tolist()), strict=True):
            yield slice(*cells), slice(*pairs)

    def scale(self, logits: Tensor, cells: slice, first: int) -> None:
        """Divide the logits of some distributions by their divisors in place, and exclude tokens that are not allowed there.

        Columns are the tokens from `first` on.
        """
        logits.div_(self.divisors_C[cells, None])
        if self.allowed_C_A is not None:
            allowed = self.allowed_C_A[cells]
            excluded = (allowed[:, :1] >= 0).expand_as(logits).clone()
            rows, places = ((allowed >= first) & (allowed < first + logits.shape[1])).nonzero(as_tuple=True)
            excluded[rows, allowed[rows, places] - first] = False
            logits.masked_fill_(excluded, _NEVER)


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
    """Log-probabilities (P,) and entropies (C,), which are empty if not needed. Without a weight the inputs are logits.

    Forward goes by rows, whose softmax it is; backward, which knows the sums, by columns: the gradient of a column's
    weights is complete at once.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs_C_X: Tensor, weight_V_X: Tensor | None, bias_V: Tensor | None, query: TokenQuery
    ) -> tuple[Tensor, Tensor]:
        of_inputs, *of_layer = ctx.needs_input_grad[:3]
        keeps_slopes = of_inputs and weight_V_X is not None and not any(of_layer) and not query.need.gradient
        found = _scan_rows(inputs_C_X, weight_V_X, bias_V, query, keeps_slopes=keeps_slopes)
        logprobs_P, slopes_P_X, tops_C, rests_C, entropies_C, best_C = found
        if keeps_slopes:
            ctx.save_for_backward(slopes_P_X)
        else:
            ctx.save_for_backward(inputs_C_X, weight_V_X, bias_V, tops_C, rests_C, entropies_C, best_C)
        ctx.query, ctx.shape, ctx.dtype, ctx.keeps_slopes = query, inputs_C_X.shape, inputs_C_X.dtype, keeps_slopes
        if not query.need.gradient:
            ctx.mark_non_differentiable(entropies_C)
        return logprobs_P, entropies_C

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_P: Tensor, gradient_C: Tensor) -> Any:
        query: TokenQuery = ctx.query
        gradient_P = gradient_P / query.divisors_C[query.distributions_P]
        if ctx.keeps_slopes:
            (slopes_P_X,) = ctx.saved_tensors
            to_inputs = slopes_P_X.new_zeros(ctx.shape)
            to_inputs.index_add_(0, query.distributions_P, slopes_P_X * gradient_P[:, None])
            return to_inputs.to(ctx.dtype), None, None, None
        inputs_C_X, weight_V_X, bias_V, *of_rows = ctx.saved_tensors
        slopes = _Slopes(query, gradient_P, gradient_C, *of_rows)
        buffers = _Buffers(inputs_C_X, query.need.gradient)
        if weight_V_X is None:
            to_inputs = torch.empty_like(inputs_C_X)
            for columns in buffers.split_columns(*inputs_C_X.shape):
                block = buffers.multiply(inputs_C_X[:, columns], None, None)
                to_inputs[:, columns] = slopes.compute(block, columns, buffers)
            return to_inputs, None, None, None
        to_inputs = torch.zeros_like(inputs_C_X, dtype=torch.float32)
        to_weight, to_bias = (
            torch.empty_like(each) if needed else None
            for each, needed in zip((weight_V_X, bias_V), ctx.needs_input_grad[1:3], strict=True)
        )
        for columns in buffers.split_columns(len(inputs_C_X), len(weight_V_X)):
            block = buffers.multiply(inputs_C_X, weight_V_X[columns], None if bias_V is None else bias_V[columns])
            slopes.compute(block, columns, buffers)
            if to_bias is not None:
                to_bias[columns] = block.sum(0)
            block = buffers.cast(block)
            to_inputs += block @ weight_V_X[columns]
            if to_weight is not None:
                torch.mm(block.t(), inputs_C_X, out=to_weight[columns])
        return to_inputs.to(inputs_C_X.dtype), to_weight, to_bias, None


def _scan_rows(
    inputs_C_X: Tensor, weight_V_X: Tensor | None, bias_V: Tensor | None, query: TokenQuery, *, keeps_slopes: bool
) -> tuple[Tensor, ...]:
    """Log-probabilities (P,); slopes (P, X) by hidden states, if kept; and of each distribution its largest logit, what others
    are to it, their entropies, if needed, and the most probable token."""
    need, new_empty = query.need, query.divisors_C.new_empty
    logprobs_P = new_empty(len(query.targets_P))
    slopes_P_X = new_empty((len(query.targets_P), inputs_C_X.shape[1]) if keeps_slopes else 0)
    tops_C, rests_C, entropies_C = (new_empty(len(inputs_C_X)) for _ in range(3))
    best_C = torch.empty_like(tops_C, dtype=torch.int64)
    buffers = _Buffers(inputs_C_X, need.values)
    for cells, pairs in query.split(buffers.count_rows(inputs_C_X.shape[1] if weight_V_X is None else len(weight_V_X))):
        block = buffers.multiply(inputs_C_X[cells], weight_V_X, bias_V)
        rows_P, targets_P = query.distributions_P[pairs] - cells.start, query.targets_P[pairs]
        logprobs_P[pairs] = block[rows_P, targets_P]
        for part, logits, others in buffers.list_parts(block, cells.start):
            query.scale(logits, part, 0)
            tops_C[part], best_C[part] = logits.max(-1)
            logits.sub_(tops_C[part, None])
            odds = torch.exp(logits, out=others if need.values else logits)
            # Apart from the most probable token's: 1 - p of one that is nearly certain keeps its digits.
            rests_C[part] = odds.scatter_(1, best_C[part, None], 0.0).sum(-1)
            if need.values:
                entropies_C[part] = -logits.mul_(odds).sum(-1)
            if keeps_slopes and need.values:
                logits.copy_(odds)
        if keeps_slopes and weight_V_X is not None:
            best_P = best_C[cells][rows_P]
            from_best = _compute_from_best(buffers.cast(block), weight_V_X, best_C[cells], rests_C[cells])
            slopes_P_X[pairs] = from_best[rows_P] + (weight_V_X[targets_P].float() - weight_V_X[best_P].float())
    of_pairs, log_sums_C = query.distributions_P, rests_C.log1p()
    logprobs_P.div_(query.divisors_C[of_pairs]).sub_(tops_C[of_pairs]).sub_(log_sums_C[of_pairs])
    entropies_C = entropies_C.div_(1 + rests_C).add_(log_sums_C) if need.values else new_empty(0)
    return logprobs_P, slopes_P_X, tops_C, rests_C, entropies_C, best_C


def _compute_from_best(odds: Tensor, weight: Tensor, best: Tensor, rests: Tensor) -> Tensor:
    """W[best] - p W of each row, float32, where `odds` are p / p(best), and 0 at the best.

    It sums what the others are away from the best: nothing cancels where p(best) is nearly 1.
    """
    others = (odds @ weight).float()
    return others.sub_(rests[:, None] * weight[best]).div_(-(1 + rests[:, None]))


class _Slopes:
    """The gradient of the logits, where that of C distributions' tokens and entropies is given, and what forward found."""

    def __init__(
        self,
        query: TokenQuery,
        gradient_P: Tensor,
        gradient_C: Tensor,
        tops_C: Tensor,
        rests_C: Tensor,
        entropies_C: Tensor,
        best_C: Tensor,
    ) -> None:
        self._query, self._tops_C, self._rests_C, self._best_C = query, tops_C, rests_C, best_C
        # As if the most probable token were each pair's, and then what the others are away from that: 1 - p keeps its digits.
        self._apart_P = gradient_P * (query.targets_P != best_C[query.distributions_P])
        self._sums_C, apart_C = (
            torch.zeros_like(tops_C).index_add_(0, query.distributions_P, each) for each in (gradient_P, self._apart_P)
        )
        self._at_best_C = self._sums_C * rests_C / (1 + rests_C) - apart_C
        if query.need.gradient:
            self._of_entropy_C, self._offsets_C = gradient_C / query.divisors_C, entropies_C - rests_C.log1p()
            self._at_best_C -= self._of_entropy_C * self._offsets_C / (1 + rests_C)

    def compute(self, block: Tensor, columns: slice, buffers: "_Buffers") -> Tensor:
        """Write the gradient over a block of logits (C, columns); returns it."""
        for part, logits, others in buffers.list_parts(block, 0):
            self._query.scale(logits, part, columns.start)
            logits.sub_(self._tops_C[part, None])
            scales = -1 / (1 + self._rests_C[part, None])
            if self._query.need.gradient:
                torch.exp(logits, out=others)
                logits.add_(self._offsets_C[part, None]).mul_(self._of_entropy_C[part, None])
                logits.add_(self._sums_C[part, None]).mul_(others).mul_(scales)
            else:
                logits.exp_().mul_(scales * self._sums_C[part, None])
        rows = ((self._best_C >= columns.start) & (self._best_C < columns.stop)).nonzero()[:, 0]
        block[rows, self._best_C[rows] - columns.start] = self._at_best_C[rows]
        targets_P = self._query.targets_P
        pairs = ((targets_P >= columns.start) & (targets_P < columns.stop)).nonzero()[:, 0]
        block[self._query.distributions_P[pairs], targets_P[pairs] - columns.start] += self._apart_P[pairs]
        return block


class _Buffers:
    """Memory for one block of logits after the other: an allocator keeps what each would free."""

    def __init__(self, inputs: Tensor, with_others: bool) -> None:
        """`with_others` for a second value of each logit of a part; in other types than float32, one more of each."""
        place = "cpu" if inputs.device.type == "cpu" else "cuda"
        half = 1 if inputs.dtype == torch.float32 else 2
        self._most, self._most_of_part = _ELEMENTS_PER_BLOCK[place] // half, _ELEMENTS_PER_PART[place]
        self._new_empty, self._is_float32, self._with_others = (
            inputs.new_empty,
            inputs.dtype == torch.float32,
            with_others,
        )
        self._kept: dict[str, Tensor] = {}

    def count_rows(self, num_columns: int) -> int:
        """Of a block of so many columns."""
        return max(1, self._most // num_columns)

    def split_columns(self, num_rows: int, num_columns: int) -> Iterator[slice]:
        """The columns of each block of so many rows."""
        size = max(1, self._most // max(1, num_rows))
        return (slice(start, min(start + size, num_columns)) for start in range(0, num_columns, size))

    def multiply(self, inputs: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """The logits of inputs, float32; of a layer without a weight the inputs."""
        if weight is None:
            return self._take("logits", inputs.shape, torch.float32).copy_(inputs)
        logits = self._take("logits", (len(inputs), len(weight)), torch.float32)
        out = logits if self._is_float32 else self._take("products", logits.shape, inputs.dtype)
        if bias is None:
            torch.mm(inputs, weight.t(), out=out)
        else:
            torch.addmm(bias, inputs, weight.t(), out=out)
        return logits if out is logits else logits.copy_(out)

    def cast(self, block: Tensor) -> Tensor:
        """A block in the type of the inputs."""
        return block if self._is_float32 else self._kept["products"][: block.numel()].view_as(block).copy_(block)

    def list_parts(self, block: Tensor, first: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Cells, of which `first` is the block's, their logits, and as large a buffer beside them."""
        num_rows = max(1, self._most_of_part // max(1, block.shape[1]))
        for start in range(0, len(block), num_rows):
            part = block[start : start + num_rows]
            others = self._take("others", part.shape, torch.float32) if self._with_others else part[:0]
            yield slice(first + start, first + start + len(part)), part, others

    def _take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The buffer of this name, which becomes as large as the first that is taken, which no other exceeds."""
        num = math.prod(shape)
        if name not in self._kept or len(self._kept[name]) < num:
            self._kept[name] = self._new_empty(num, dtype=dtype)
        return self._kept[name][:num].view(shape)
