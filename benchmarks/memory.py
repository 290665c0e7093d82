"""Log-probabilities at the output layer: whole logits, as once, and blocks, as now. One thread, CPU seconds.

Frozen layers and trained ones by themselves, and a whole update of a trained model of SmolLM2-135M's shape with random weights,
forward and backward without the optimizer.
"""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.interleaved import measure, run_apart
from benchmarks.kept import write
from benchmarks.long_row_tables import write_layers
from benchmarks.origin import read_origin
from benchmarks.whole_logits import logprobs_of_logits
from components.training.token_logprobs import EntropyNeed, TokenQuery, compute_at_layer

MOST_APART = {"float32": 1e-6, "bfloat16": 5e-3}
"""The type's rounding: in bfloat16 each way rounds probabilities of its own."""
MOST_MIB = 64
MOST_TIME = {"frozen layer": 1.0, "trained update": 1.15}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cells", type=int, default=1024, help="tokens that are predicted")
    arguments.add_argument("--vocabulary", type=int, default=49_152)
    arguments.add_argument("--width", type=int, default=576)
    arguments.add_argument("--layers", type=int, default=30, help="of the model whose update is measured")
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--to", type=Path, help="a file for the rows")
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    rows = [
        run_apart(partial(_measure_layer, chosen, trained=trained, dtype=dtype))
        for trained in (False, True)
        for dtype in ("float32", "bfloat16")
    ]
    rows.append(run_apart(partial(_measure_update, chosen)))
    if chosen.to is not None:
        write(chosen.to, rows)
    print(write_layers(rows))
    missed = find_missed(rows)
    print("\n".join(missed) or "all bounds hold")
    raise SystemExit(1 if missed else 0)


def find_missed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The bounds that a row misses, a line each."""
    missed = []
    for row in rows:
        name = f"{row['name']}, {row['dtype']}"
        if row["ratio"] > MOST_TIME.get(row["name"], float("inf")):
            missed.append(f"MISSED: {name}: {row['ratio']:.2f} times as long")
        if row["apart"] > MOST_APART[row["dtype"]]:
            missed.append(f"WRONG: {name}: {row['apart']:.1e} apart")
        if row["name"] == "frozen layer" and row["mib"]["blocks"] >= MOST_MIB:
            missed.append(f"WRONG: {name}: {row['mib']['blocks']} MiB")
    return missed


def _measure_layer(chosen: argparse.Namespace, *, trained: bool, dtype: str) -> dict[str, Any]:
    random = torch.Generator().manual_seed(0)
    kind = getattr(torch, dtype)
    hidden = (torch.randn(chosen.cells, chosen.width, generator=random) / 4).to(kind).requires_grad_()
    layer = torch.nn.Linear(chosen.width, chosen.vocabulary, bias=False, dtype=kind).requires_grad_(trained)
    with torch.no_grad():
        layer.weight.normal_(std=1 / 8, generator=random)
    targets = torch.randint(chosen.vocabulary, (chosen.cells,), generator=random)
    weights = torch.randn(chosen.cells, generator=random)

    def compute(*, whole: bool) -> Sequence[Tensor]:
        hidden.grad = layer.weight.grad = None
        if whole:
            logprobs, entropies = logprobs_of_logits(layer(hidden), targets)
        else:
            logprobs, entropies = _answer(hidden, layer, targets).unbind(1)
        (logprobs * weights).sum().backward()  # type: ignore[no-untyped-call]
        return [x.detach() for x in (logprobs, entropies, hidden.grad, layer.weight.grad) if x is not None]

    return {
        "name": "trained layer" if trained else "frozen layer",
        "dtype": dtype,
        "shape": f"{chosen.cells:,} x {chosen.vocabulary:,} x {chosen.width}",
        **measure({"whole": lambda: compute(whole=True), "blocks": lambda: compute(whole=False)}, chosen.repeats),
        **read_origin(),
    }


def _answer(hidden: Tensor, layer: torch.nn.Linear, targets: Tensor) -> Tensor:
    numbers = torch.arange(len(targets))
    return compute_at_layer(hidden, layer, TokenQuery(torch.ones(len(targets)), numbers, targets, EntropyNeed(True)))


def _measure_update(chosen: argparse.Namespace) -> dict[str, Any]:
    """One causal text, every token of which is predicted: the largest share that an output layer has."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    heads = max(1, chosen.width // 64)
    config = LlamaConfig(
        vocab_size=chosen.vocabulary, hidden_size=chosen.width, num_hidden_layers=chosen.layers, num_attention_heads=heads,
        num_key_value_heads=heads // 3 or 1, intermediate_size=chosen.width * 8 // 3, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    tokens = torch.randint(chosen.vocabulary, (1, chosen.cells // 2 + 1))

    def compute(*, whole: bool) -> Sequence[Tensor]:
        model.zero_grad()
        hidden = model.model(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state[0]
        if whole:
            logprobs, _ = logprobs_of_logits(model.lm_head(hidden), tokens[0, 1:])
        else:
            logprobs = _answer(hidden, model.lm_head, tokens[0, 1:])[:, 0]
        logprobs.mean().backward()  # type: ignore[no-untyped-call]
        gradient = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])
        return logprobs.detach(), gradient

    return {
        "name": "trained update",
        "dtype": "float32",
        "shape": f"{chosen.cells // 2:,} x {chosen.vocabulary:,} x {chosen.width}",
        **measure({"whole": lambda: compute(whole=True), "blocks": lambda: compute(whole=False)}, chosen.repeats),
        **read_origin(),
    }


if __name__ == "__main__":
    main()
