"""Attention of a packed row, which is a tree: a mask of columns x columns, and calls along the tree. One thread, CPU seconds.

One layer of 9 heads, 3 of keys, of width 64, forward and backward. The row is a prompt that two groups share, each with a
second prompt and eight answers.
"""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.interleaved import measure, run_apart
from benchmarks.kept import write
from benchmarks.long_row_tables import write_attention
from benchmarks.origin import read_origin
from components.training.packing import Ints
from components.training.row_attention import attend_rows, attention_mask, plan_rows

HEADS, KEY_HEADS, WIDTH = 9, 3, 64
MOST_APART = 1e-6
MOST_TIME = 0.5
TESTED_COLUMNS = 4096
"""From which on the time is held to that."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--columns", type=int, nargs="+", default=[2048, 4096, 8192])
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--to", type=Path, help="a file for the rows")
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    rows = [run_apart(partial(measure_row, columns, chosen.repeats)) for columns in chosen.columns]
    if chosen.to is not None:
        write(chosen.to, rows)
    print(write_attention(rows))
    missed = [
        *(f"WRONG: {row['columns']} columns: {row['apart']:.1e} apart" for row in rows if row["apart"] > MOST_APART),
        *(f"MISSED: {row['columns']} columns: {row['ratio']:.2f} times as long" for row in rows if is_slow(row)),
    ]
    print("\n".join(missed) or "all bounds hold")
    raise SystemExit(1 if missed else 0)


def is_slow(row: Mapping[str, Any]) -> bool:
    """Whether a long row takes more of the mask's time than it may."""
    return bool(row["columns"] >= TESTED_COLUMNS and row["ratio"] > MOST_TIME)


def make_ends(columns: int) -> Ints:
    """The ends of a row of about so many columns: a quarter is the common prompt."""
    prompt = columns // 4
    group = (columns - prompt) // 2
    second, answer = group // 8, (group - group // 8) // 8
    ends = [prompt + 2 * (second + 8 * answer)] * prompt
    for _ in range(2):
        first = len(ends)
        ends += [first + second + 8 * answer] * second
        for number in range(8):
            ends += [first + second + (number + 1) * answer] * answer
    return np.array(ends)[None]


def measure_row(columns: int, repeats: int) -> dict[str, Any]:
    """Both ways, from the tree of a micro-batch on."""
    random = torch.Generator().manual_seed(0)
    ends_S_T = make_ends(columns)
    length = ends_S_T.shape[1]
    query, key, value = (
        torch.randn(1, length, num, WIDTH, generator=random).transpose(1, 2).requires_grad_()
        for num in (HEADS, KEY_HEADS, KEY_HEADS)
    )
    layer = SimpleNamespace(num_key_value_groups=HEADS // KEY_HEADS, is_causal=True, training=False)

    def compute(*, whole: bool) -> Sequence[Tensor]:
        query.grad = key.grad = value.grad = None
        mask = attention_mask(torch.from_numpy(ends_S_T)) if whole else None
        trees = None if whole else plan_rows(ends_S_T, torch.device("cpu"))
        assert whole or trees is not None, f"a row of {length} columns keeps its mask"
        out, _ = attend_rows(layer, query, key, value, mask, row_trees=trees)
        out.square().sum().backward()  # type: ignore[no-untyped-call]
        return [x.detach() for x in (out, query.grad, key.grad, value.grad) if x is not None]

    found = measure({"mask": lambda: compute(whole=True), "tree": lambda: compute(whole=False)}, repeats)
    return {"columns": length, **found, **read_origin()}


if __name__ == "__main__":
    main()
