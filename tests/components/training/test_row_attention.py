"""Attention of rows by calls, and the predicate of the block mask, against the whole mask and the paths it stands for."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from components.training import row_attention as module
from components.training.row_attention import RowTrees, attend_rows, attends, attention_mask, list_calls, plan_rows

CPU = torch.device("cpu")


@st.composite
def trees(draw: Any) -> tuple[np.ndarray, list[set[int]]]:
    """The ends of the columns of a row with padding, and what each attends to, from sequences over few tokens."""
    rng = random.Random(draw(st.integers(0, 9999)))
    longest = draw(st.integers(1, 12))
    root = (0,) * draw(st.integers(1, 6))
    sequences = sorted({root + tuple(rng.randrange(2) for _ in range(rng.randint(0, longest))) for _ in range(9)})
    nodes: list[tuple[int, ...]] = []
    for sequence in sequences:
        nodes += [s for n in range(1, len(sequence) + 1) if (s := sequence[:n]) not in nodes]
    paths = [{nodes.index(node[:n]) for n in range(1, len(node) + 1)} for node in nodes]
    ends = [1 + max(other for other, path in enumerate(paths) if column in path) for column in range(len(nodes))]
    padding = range(len(nodes), len(nodes) + draw(st.integers(0, 3)))
    return np.array(ends + [column + 1 for column in padding]), paths


@given(trees(), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_calls_and_the_mask_of_blocks_are_the_paths_of_a_tree(tree: Any, least: int) -> None:
    ends_T, paths = tree
    mask = attention_mask(torch.from_numpy(ends_T)[None])[0, 0]
    assert [set(row.nonzero()[:, 0].tolist()) for row in mask[: len(paths)]] == paths
    calls = list_calls(0, ends_T[: len(paths)], least=least)
    plan = RowTrees(torch.from_numpy(ends_T)[None], tuple(calls))
    pairs = []
    for call, masked in zip(calls, plan.masks, strict=True):
        keys = [column for span in call.spans for column in range(*span)]
        for query in range(call.start, call.end):
            for place, key in enumerate(keys):
                seen = key <= query if masked is None and call.kind == "causal" else True
                if seen if masked is None else masked[query - call.start, place]:
                    pairs.append((query, key))
    assert sorted(pairs) == sorted((query, key) for query, path in enumerate(paths) for key in path), "each pair once"


@given(st.lists(trees(), min_size=1, max_size=3), st.integers(1, 5), st.sampled_from([(2, 2), (4, 2), (3, 1)]))
@settings(max_examples=60, deadline=None)
def test_values_and_gradients_are_those_of_the_whole_mask(rows: Any, least: int, heads: tuple[int, int]) -> None:
    longest = max(len(ends_T) for ends_T, _ in rows)
    ends_S_T = np.tile(np.arange(1, longest + 1), (len(rows), 1))
    for number, (ends_T, paths) in enumerate(rows):
        ends_S_T[number, : len(paths)] = ends_T[: len(paths)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST_COLUMNS", least)
        patch.setattr(module, "_COST_OF_CALL", -(10**6))
        plan = plan_rows(ends_S_T, CPU)
    assert plan is not None
    generator = torch.Generator().manual_seed(least)
    inputs = [
        torch.randn(len(rows), longest, num, 8, generator=generator, dtype=torch.float64).transpose(1, 2)
        for num in (heads[0], heads[1], heads[1])
    ]
    real = (torch.from_numpy(ends_S_T[:, :1]) > torch.arange(longest))[:, :, None, None]
    layer, results = SimpleNamespace(num_key_value_groups=heads[0] // heads[1], training=False), []
    for whole in (True, False):
        query, key, value = (each.clone().requires_grad_() for each in inputs)
        if whole:
            mask = attention_mask(torch.from_numpy(ends_S_T))
            out = scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True).transpose(1, 2)
        else:
            out, _ = attend_rows(layer, query, key, value, None, row_trees=plan)
        out = out * real  # nothing is asked of padding
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
        results.append([out.detach(), query.grad, key.grad, value.grad])
    for exact, mine in zip(*results, strict=True):
        torch.testing.assert_close(mine, exact, rtol=1e-9, atol=1e-12)


def test_a_block_mask_evaluated_whole_is_the_mask() -> None:
    """On the CPU, where FlexAttention has no backward: that of the kernel is tested on a device."""
    ends_S_T = torch.arange(1, 301).repeat(2, 1)
    ends_S_T[0, :150], ends_S_T[0, 150:220], ends_S_T[0, 220:290] = 290, 220, 290
    ends_S_T[1, :300] = 300
    mask, blocks = attention_mask(ends_S_T), RowTrees(ends_S_T).block_mask
    columns = torch.arange(300)
    found = [attends(ends_S_T, s, columns[:, None], columns[None]) for s in range(2)]
    assert torch.equal(torch.stack(found)[:, None], mask)
    padded = torch.nn.functional.pad(mask, (0, 84, 0, 84)).unflatten(3, (3, 128)).unflatten(2, (3, 128))
    assert torch.equal(blocks.to_dense().bool(), padded.any(5).any(3)), "blocks with something in them, and no others"


def test_rows_without_branches_are_causal_and_short_ones_keep_the_mask() -> None:
    straight = np.array([[5, 5, 5, 5, 5], [3, 3, 3, 4, 5]])
    assert plan_rows(straight, CPU).is_causal
    forked = np.array([[5, 5, 3, 5, 5]])
    assert plan_rows(forked, CPU) is None
    long = np.repeat(forked * 400, 400, axis=1)
    long[0, 800:1200] = 1200
    plan = plan_rows(long, CPU)
    assert [(call.kind, call.start, call.end) for call in plan.calls] == [
        ("causal", 0, 1200),
        ("causal", 1200, 2000),
        ("whole", 1200, 2000),
    ]
    assert plan_rows(long, torch.device("meta")).calls == (), "blocks, on a device"


def test_the_documented_examples() -> None:
    calls = list_calls(0, np.array([4, 4, 3, 4]), least=2)
    assert [(call.kind, call.start, call.end, call.spans) for call in calls] == [
        ("causal", 0, 3, ((0, 3),)),
        ("causal", 3, 4, ((3, 4),)),
        ("whole", 3, 4, ((0, 2),)),
    ]
    assert bool(attends(torch.tensor([[3, 2, 3, 4]]), 0, torch.tensor(2), torch.tensor(0)))
