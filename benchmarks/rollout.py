"""Tokens a second of the in-process engine and of the library's plain `generate`, on the same tree.

    python -m benchmarks.rollout [--shape tiny smollm2-135m] [--problems N] [--repeats N] [--threads 1]
        [--device cuda --dtype bfloat16]

The nodes are those of plan-path's tree, as its noisy expert plays it: a level is one turn of one agent. The larger shape reads
each prompt several times over and answers longer. Each candidate has a length of its own, the same for both sides, between a
quarter of the limit and the limit; no end token is ever sampled. `generate` gets all nodes of a level as one left-padded batch
with a key-value cache and num_return_sequences, and stops when its longest answer is done. The engine does the same level at
once, and once more with room for a quarter of it, so that candidates wait for places. Weights are random, the temperature is 1.
The sides take turns within each repeat. "needed" is each distinct prompt once and each answer's tokens but the last.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, StoppingCriteria, StoppingCriteriaList
from transformers import GenerationConfig as LibraryGenerationConfig
from transformers.utils import logging as transformers_logging

from components.config import PolicyConfig, TransformersGeneration
from components.generation.base import GenerationRequest
from components.generation.local.engine import TransformersGenerator
from components.models.character_tokenizer import character_tokenizer
from components.models.digests import model_digest
from components.models.loading import prepare_model_folder
from components.models.model_folder import write_model_folder
from components.schema import PolicyVersion

REQUIRED_RATIO = 3.0
NOISE = 0.8
"""Solves a quarter of the problems in the first turn, about what a policy does after the presets' warm start."""
NEVER = "<never>"
"""An end token that no model here has logits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One prompt and how long each of its candidates gets."""

    prompt_tokens: tuple[int, ...]
    lengths_K: tuple[int, ...]


Level = Sequence[Node]
"""The nodes of one turn and agent, which are asked for together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model and the tree that it is asked to sample."""

    num_problems: int
    max_new_tokens: int | None
    """None takes the environment's own."""
    prompt_repeats: int
    vocab_size: int | None
    """None takes the environment's alphabet."""
    num_turns: int
    repeats: int


SHAPES = {
    "tiny": Shape(num_problems=32, max_new_tokens=None, prompt_repeats=1, vocab_size=None, num_turns=2, repeats=9),
    "smollm2-135m": Shape(
        num_problems=8, max_new_tokens=32, prompt_repeats=4, vocab_size=49152, num_turns=1, repeats=3
    ),
}


@dataclass
class Side:
    """One way to sample a level, and what it took."""

    sample: Callable[[Level], int]
    """Returns the number of sampled tokens."""
    model: Any
    seconds: list[float] = field(default_factory=list)
    num_computed: int = 0


class Lengths(StoppingCriteria):  # type: ignore[misc]  # transformers ships no types
    """Ends each sequence of a batch at its own length."""

    def __init__(self, lengths_B: torch.Tensor, width: int) -> None:
        self._ends_B = lengths_B + width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return self._ends_B <= input_ids.shape[1]


def levels_of(shape: Shape, group_size: int) -> tuple[list[Level], Any]:
    """plan-path's tree, and a tokenizer for it with exactly the shape's vocabulary and an end token beyond."""
    from components.rollout.shards import shard_problems
    from components.session.scenario import scenario_of
    from flows.presets import preset_config

    config = preset_config("plan-path", [f"rollout.num_problems={shape.num_problems}"], num_steps=1)
    scenario = scenario_of(config)
    family, options = scenario.family, scenario.options
    tokenizer = tokenizer_of(family.alphabet(options), shape.vocab_size)
    longest, rng = shape.max_new_tokens or family.max_action_characters(options) + 1, Random(0)
    plays = [family.build(each.problem) for each in shard_problems(config, family, options, step=0, shard=0)]
    levels: list[Level] = []
    for _ in range(shape.num_turns):
        for role in family.roles:
            level = []
            for played in (each for each in plays if not each.done):
                prompt = tuple(tokenizer.encode(played.observe(role).state * shape.prompt_repeats))
                lengths = tuple(rng.randint(-(-longest // 4), longest) for _ in range(group_size))
                level.append(Node(prompt_tokens=prompt, lengths_K=lengths))
                played.apply(role, family.noisy_expert_action(played.position, role, noise=NOISE, rng=rng))
            levels += [level] if level else []
    return levels, tokenizer


def tokenizer_of(alphabet: str, vocab_size: int | None) -> Any:
    """One token a character, filled up with characters of the private use plane."""
    num_special = 2
    filling = (vocab_size or 0) - num_special - len(alphabet)
    tokenizer = character_tokenizer(alphabet + "".join(chr(0xF0000 + number) for number in range(filling)))
    tokenizer.add_special_tokens({"eos_token": NEVER})
    return tokenizer


def write_folder(name: str, tokenizer: Any, folder: Path) -> None:
    """A model with random weights whose vocabulary ends right before NEVER, which alone ends its answers."""
    if name == "tiny":
        alphabet = "".join(tokenizer.convert_ids_to_tokens(range(2, tokenizer.eos_token_id)))
        prepare_model_folder(PolicyConfig(), alphabet=alphabet, seed=0, into=folder)
        tokenizer.save_pretrained(folder)
    else:
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=tokenizer.eos_token_id, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True,
        )  # fmt: skip
        write_model_folder(LlamaForCausalLM(config), tokenizer, folder)
    # Else the engine ends answers at those of the architecture too, which are sampled.
    LibraryGenerationConfig(eos_token_id=tokenizer.eos_token_id).save_pretrained(folder)


def quarter_of(levels: Sequence[Level]) -> int:
    """Tokens for a quarter of the largest level, and at least for two candidates of the longest prompt."""
    longest = max(length for level in levels for node in level for length in node.lengths_K)
    widest = max(len(node.prompt_tokens) for level in levels for node in level)
    wanted = max(len(level) * (widest + len(level[0].lengths_K) * longest) for level in levels)
    return max(64, wanted // 4, widest + 2 * longest)


def engine_side(folder: Path, generation: TransformersGeneration, version: PolicyVersion) -> Side:
    """The engine; a request per candidate, because each has its own length."""
    engine = TransformersGenerator(generation)
    engine.load(folder, version)

    def sample(level: Level) -> int:
        requests = [
            GenerationRequest(prompt_tokens=node.prompt_tokens, seeds_K=(k,), max_new_tokens=length, temperature=1.0)
            for node in level
            for k, length in enumerate(node.lengths_K)
        ]
        return sum(len(completion.tokens) for (completion,) in engine.generate(requests, version))

    return Side(sample=sample, model=engine._model)


def plain_side(folder: Path, generation: TransformersGeneration) -> Side:
    """The library's generate over a level as one batch."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, generation.dtype))
    model = model.to(generation.device).eval()

    def sample(level: Level) -> int:
        width = max(len(node.prompt_tokens) for node in level)
        prompts = [(0,) * (width - len(node.prompt_tokens)) + node.prompt_tokens for node in level]
        lengths_B = torch.tensor([length for node in level for length in node.lengths_K], device=model.device)
        length_P = torch.tensor([len(node.prompt_tokens) for node in level])
        mask_P_W = (torch.arange(width) >= width - length_P[:, None]).long()
        with torch.inference_mode():
            found = model.generate(
                torch.tensor(prompts, device=model.device), attention_mask=mask_P_W.to(model.device), do_sample=True,
                temperature=1.0, top_k=0, top_p=1.0, num_return_sequences=len(level[0].lengths_K), pad_token_id=0,
                eos_token_id=None, max_new_tokens=int(lengths_B.max()),
                stopping_criteria=StoppingCriteriaList([Lengths(lengths_B, width)]),
            )  # fmt: skip
        rows = zip(found[:, width:].tolist(), lengths_B.tolist(), strict=True)
        return sum(len(row[:length]) for row, length in rows)

    return Side(sample=sample, model=model)


@contextmanager
def count_tokens(side: Side) -> Iterator[None]:
    """Count the tokens that the side's module is fed, and leave the count with the side."""

    def add_tokens(module: Any, args: Any, kwargs: Any) -> None:
        side.num_computed += kwargs["input_ids"].numel()

    hook = side.model.register_forward_pre_hook(add_tokens, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def measure(sides: dict[str, Side], levels: Sequence[Level], repeats: int) -> None:
    """Sample the tree with every side in turn, and count on the first turn; counting costs next to nothing."""
    num_tokens = sum(sum(node.lengths_K) for level in levels for node in level)
    for repeat in range(repeats):
        for side in sides.values():
            with count_tokens(side) if repeat == 0 else nullcontext():
                started = time.perf_counter()
                found = sum(side.sample(level) for level in levels)
                side.seconds.append(time.perf_counter() - started)
            assert found == num_tokens, (found, num_tokens)


def report(name: str, sides: dict[str, Side], levels: Sequence[Level]) -> bool:
    """Print the table; whether the engine is fast enough."""
    nodes = [node for level in levels for node in level]
    num_tokens = sum(sum(node.lengths_K) for node in nodes)
    needed = sum(sum(map(len, {node.prompt_tokens for node in level})) for level in levels)
    needed += num_tokens - sum(len(node.lengths_K) for node in nodes)
    print(f"\n{name}: {len(nodes)} nodes on {len(levels)} levels, {len(nodes[0].lengths_K)} candidates each, {num_tokens} "
          f"tokens sampled, {needed} needed")  # fmt: skip
    print(f"{'':24}{'tokens/s':>10}{'ratio':>8}{'computed':>10}{'computed / needed':>20}")
    plain = sides["generate"]
    ratios = {}
    for label, side in sides.items():
        ratios[label] = statistics.median(b / a for a, b in zip(side.seconds, plain.seconds, strict=True))
        speed = num_tokens / statistics.median(side.seconds)
        share = side.num_computed / needed
        print(f"{label:24}{speed:10.0f}{ratios[label]:8.2f}{side.num_computed:10}{share:20.2f}")
    held = ratios["engine"] >= REQUIRED_RATIO
    print(f"required: at least {REQUIRED_RATIO} times generate: {'held' if held else 'MISSED'}")
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--problems", type=int, help="of every shape; the default is each shape's own")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    transformers_logging.disable_progress_bar()
    held = []
    for name in asked.shape:
        shape = replace(SHAPES[name], num_problems=asked.problems or SHAPES[name].num_problems)
        levels, tokenizer = levels_of(shape, asked.group_size)
        with tempfile.TemporaryDirectory(prefix="troupe-benchmark-") as home:
            folder = Path(home)
            write_folder(name, tokenizer, folder)
            digest = model_digest(AutoModelForCausalLM.from_pretrained(folder, dtype="auto"))
            version = PolicyVersion(policy="team", step=0, weights_digest=digest)
            generation = TransformersGeneration(num_threads=asked.threads, device=asked.device, dtype=asked.dtype)
            little = generation.model_copy(update={"max_batch_tokens": quarter_of(levels)})
            sides = {
                "engine": engine_side(folder, generation, version),
                "engine, a quarter": engine_side(folder, little, version),
                "generate": plain_side(folder, generation),
            }
            measure(sides, levels, asked.repeats or SHAPES[name].repeats)
        held.append(report(name, sides, levels))
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
