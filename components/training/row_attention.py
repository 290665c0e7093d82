"""Attention of packed rows, which are trees of token sequences, without a matrix of columns x columns.

On a CPU some columns at a time attend to those that they go on from, which are few, and to each other. On a CUDA device it is
FlexAttention, which skips blocks of columns that do not see each other. Rows that do not branch are causal.
Axes: S rows, T columns, Q and K the columns of one call that attend and that are attended to, H heads, D their width.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from components.errors import ConfigurationError
from components.training.packing import Ints

ROW_ATTENTION = "troupe_rows"
"""The name under which it is registered in transformers."""
_LEAST_COLUMNS = 32
"""That attend in one call, or are attended to in one by all that goes on from them: fewer cost more than they save."""
_COST_OF_CALL = 2**13
"""In pairs of columns."""
_LEAST_FOR_BLOCKS = 1024
"""Columns of a row from which on a block mask, whose blocks are of 128 columns, leaves much out."""
_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


@dataclass(frozen=True, slots=True)
class Call:
    """Columns `start` to `end` of a row attend to the columns of `spans`: to all, causally to themselves, or by a mask."""

    kind: Literal["whole", "causal", "masked"]
    row: int
    start: int
    end: int
    spans: tuple[tuple[int, int], ...]

    @property
    def num_pairs(self) -> int:
        """Pairs of columns that are computed."""
        pairs = (self.end - self.start) * sum(end - start for start, end in self.spans)
        return pairs // 2 if self.kind == "causal" else pairs


@dataclass(frozen=True, eq=False)
class RowTrees:
    """Which columns of a micro-batch attend to which: causal rows, or calls, or else blocks, on the device of `ends_S_T`."""

    ends_S_T: Tensor
    calls: tuple[Call, ...] = ()
    is_causal: bool = False

    @cached_property
    def no_mask(self) -> Tensor:
        """A mask (S, 1, T, T) that takes no memory and says nothing, which transformers hands on as it is to the attention."""
        num_rows, num_columns = self.ends_S_T.shape
        return self.ends_S_T.new_ones((), dtype=torch.bool).expand(num_rows, 1, num_columns, num_columns)

    @cached_property
    def masks(self) -> tuple[Tensor | None, ...]:
        """Of each call, booleans (Q, K) if it has a mask."""
        return tuple(self._mask(call) if call.kind == "masked" else None for call in self.calls)

    @cached_property
    def block_mask(self) -> Any:
        """For FlexAttention."""
        from torch.nn.attention.flex_attention import create_block_mask

        ends_S_T = self.ends_S_T
        num_rows, num_columns = ends_S_T.shape
        return create_block_mask(
            lambda s, _, q, k: attends(ends_S_T, s, q, k),
            num_rows,
            None,
            num_columns,
            num_columns,
            device=ends_S_T.device,
        )

    def _mask(self, call: Call) -> Tensor:
        keys_K = torch.cat([torch.arange(*span) for span in call.spans])
        queries_Q = torch.arange(call.start, call.end)
        return attends(self.ends_S_T, call.row, queries_Q[:, None], keys_K[None, :])


def attends(ends_S_T: Tensor, row: Tensor | int, query: Tensor, key: Tensor) -> Tensor:
    """Whether a column attends to another: to itself, and to those that it goes on from. Elementwise, for columns of any shape.

    **Example** ends [[3, 2, 3, 4]]: column 2 attends to 0 and 2.
    """
    return (key <= query) & (query < ends_S_T[row, key])


def attention_mask(ends_S_T: Tensor) -> Tensor:
    """The attention mask: (S, 1, T, T) booleans, query axis before key axis.

    A token attends to itself and to those that it goes on from. Padding attends to itself, because the softmax of a row
    without keys would be NaN.

    **Example** ends [3, 2, 3, 4] give rows [1,0,0,0], [1,1,0,0], [1,0,1,0], [0,0,0,1].
    """
    rows_S, columns_T = (torch.arange(size, device=ends_S_T.device) for size in ends_S_T.shape)
    return attends(ends_S_T, rows_S[:, None, None], columns_T[None, :, None], columns_T[None, None, :])[:, None]


def plan_rows(ends_S_T: Ints, device: torch.device) -> RowTrees | None:
    """How the rows of a micro-batch attend without a whole mask; None where it costs less.

    Columns beyond the tree of a row are padding, of which nothing is computed. Depends on the shapes of the trees alone.
    """
    lengths_S_1, columns_T = ends_S_T[:, :1], np.arange(ends_S_T.shape[1])
    ends = torch.from_numpy(np.ascontiguousarray(ends_S_T)).to(device)
    if ((ends_S_T == lengths_S_1) | (columns_T >= lengths_S_1)).all():
        return RowTrees(ends, is_causal=True)
    if device.type != "cpu":
        return RowTrees(ends) if len(columns_T) >= _LEAST_FOR_BLOCKS else None
    if len(columns_T) ** 2 < 4 * _COST_OF_CALL:  # a row that branches takes two calls at least
        return None
    calls = tuple(
        call
        for row, ends_T in enumerate(ends_S_T)
        for call in list_calls(row, ends_T[: ends_T[0]], least=_LEAST_COLUMNS)
    )
    cost = sum(call.num_pairs + _COST_OF_CALL for call in calls)
    return RowTrees(ends, calls) if 2 * cost <= ends_S_T.size * len(columns_T) else None


def list_calls(row: int, ends_T: Ints, *, least: int) -> list[Call]:
    """The calls that compute a row without padding; those in which columns attend to themselves come first.

    Short sequences that branch off are joined up to `least` columns, under a mask. What they go on from is attended to in one
    call by all of them if it has as many columns, and otherwise by each for itself.

    **Example** ends [4, 4, 3, 4] with least 2: columns (0, 3), and (3, 4), to themselves; then (3, 4) to all of (0, 2).
    """
    own, whole = [], []
    path: list[tuple[int, int, int]] = []
    for first, end, branches in _join_sequences(ends_T, least):
        path = [part for part in path if part[2] > first]
        before = _join_spans((start, stop) for start, stop, _ in path)
        if branches:
            own.append(Call("masked", row, first, end, (*before, (first, end))))
        else:
            own.append(Call("causal", row, first, end, ((first, end),)))
            whole += [Call("whole", row, first, end, before)] if before else []
        cuts = [first, *(np.flatnonzero(np.diff(ends_T[first:end])) + first + 1).tolist(), end]
        for start, stop in pairwise(cuts):
            last = int(ends_T[start])
            if last > end and stop - start >= least:
                whole.append(Call("whole", row, end, last, ((start, stop),)))
            elif last > end:
                path.append((start, stop, last))
    return own + whole


def _join_sequences(ends_T: Ints, least: int) -> list[tuple[int, int, bool]]:
    """(first column, end, whether something branches off inside) of what one call computes."""
    starts = np.flatnonzero(ends_T[:-1] == np.arange(1, len(ends_T))) + 1
    joined: list[tuple[int, int, bool]] = []
    for start, end in pairwise([0, *starts.tolist(), len(ends_T)]):
        if joined and max(end - start, joined[-1][1] - joined[-1][0]) < least:
            joined[-1] = joined[-1][0], end, True
        else:
            joined.append((start, end, False))
    return joined


def _join_spans(parts: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Parts in their order as few spans. **Example** (0, 2), (2, 3), (5, 6): (0, 3), (5, 6)."""
    spans: list[tuple[int, int]] = []
    for start, end in parts:
        spans.append((spans.pop()[0] if spans and spans[-1][1] == start else start, end))
    return tuple(spans)


def attend_rows(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    row_trees: RowTrees | None = None,
    scaling: float | None = None,
    **others: Any,
) -> Any:
    """Attention of (S, H, T, D), as (S, T, H, D), under transformers' protocol; without `row_trees` that of torch.

    Raises ConfigurationError for one that is more than a scaled softmax, which a trial tells apart from others.
    """
    if row_trees is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **others)
    more = [name for name in ("softcap", "s_aux", "position_bias") if others.get(name) is not None]
    if more or not (attention_mask is None or attention_mask.data_ptr() == row_trees.no_mask.data_ptr()):
        raise ConfigurationError(
            f"{type(module).__name__} has {more or 'a mask of its own'}: its rows attend by masks alone"
        )
    if row_trees.is_causal:
        return sdpa_attention_forward(module, query, key, value, None, scaling=scaling, **others)
    if not row_trees.calls:
        return flex_attention_forward(module, query, key, value, row_trees.block_mask, scaling=scaling, **others)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return _Calls.apply(query, key, value, row_trees, scale), None  # type: ignore[no-untyped-call]


class _Calls(torch.autograd.Function):
    """Attention of (S, H, T, D) call by call, as (S, T, H, D).

    The softmax over all that a column attends to is joined from those of its calls by their sums of exponentials; with these
    of the whole, each call's part of the gradient is that of the whole.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, trees: RowTrees, scale: float) -> Tensor:
        found_S_T_H_D = query.new_zeros(query.transpose(1, 2).shape)
        precise = torch.promote_types(query.dtype, torch.float32)
        log_sums_S_T_H = found_S_T_H_D.new_zeros(found_S_T_H_D.shape[:3], dtype=precise)
        for call, mask in zip(trees.calls, trees.masks, strict=True):
            out, log_sum = _forward(*_inputs(call, query, key, value), **_kind(call, mask, query, scale))
            out, log_sum = out[0].transpose(0, 1), log_sum[0].transpose(0, 1)
            found, log_sums = (each[call.row, call.start : call.end] for each in (found_S_T_H_D, log_sums_S_T_H))
            if call.kind == "whole":
                joined = torch.logaddexp(log_sums, log_sum)
                shares = ((log_sums - joined).exp()[..., None], (log_sum - joined).exp()[..., None])
                out, log_sum = found * shares[0] + out * shares[1], joined
            found.copy_(out)
            log_sums.copy_(log_sum)
        ctx.save_for_backward(query, key, value, found_S_T_H_D, log_sums_S_T_H)
        ctx.trees, ctx.scale = trees, scale
        return found_S_T_H_D

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_S_T_H_D: Tensor) -> Any:
        query, key, value, found, log_sums = ctx.saved_tensors
        to_query, to_key, to_value = (torch.zeros_like(each) for each in (query, key, value))
        outer = gradient_S_T_H_D.transpose(1, 2), found.transpose(1, 2), log_sums.transpose(1, 2)
        for call, mask in zip(ctx.trees.calls, ctx.trees.masks, strict=True):
            gradient, out, log_sum = (
                each[call.row : call.row + 1, :, call.start : call.end].contiguous() for each in outer
            )
            inputs = _inputs(call, query, key, value)
            found_query, *others = _backward(gradient, *inputs, out, log_sum, **_kind(call, mask, query, ctx.scale))
            to_query[call.row, :, call.start : call.end] += found_query[0]
            for total, part in zip((to_key, to_value), others, strict=True):
                _add_to_spans(total[call.row], part[0], call)
        return to_query, to_key, to_value, None, None


def _inputs(call: Call, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a call computes with, each head's keys and values for itself."""
    num_shared = query.shape[1] // key.shape[1]
    row = slice(call.row, call.row + 1)
    joined = (torch.cat([each[row, :, start:end] for start, end in call.spans], 2) for each in (key, value))
    keys, values = (repeat_kv(each, num_shared) for each in joined)
    return query[row, :, call.start : call.end], keys, values


def _kind(call: Call, mask: Tensor | None, query: Tensor, scale: float) -> dict[str, Any]:
    floats = None if mask is None else query.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)
    return {"dropout_p": 0.0, "is_causal": call.kind == "causal", "attn_mask": floats, "scale": scale}


def _add_to_spans(total: Tensor, part_H_K_D: Tensor, call: Call) -> None:
    """Add the gradient of a call's keys or values to that of all, over the heads that share them."""
    part = part_H_K_D.view(len(total), -1, *part_H_K_D.shape[1:]).sum(1)
    place = 0
    for start, end in call.spans:
        total[:, start:end] += part[:, place : place + end - start]
        place += end - start


AttentionInterface.register(ROW_ATTENTION, attend_rows)
AttentionMaskInterface.register(ROW_ATTENTION, sdpa_mask)
