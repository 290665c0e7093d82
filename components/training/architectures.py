"""Which models packed training computes exactly, found when they are loaded: by their configuration, and by trying.

A packed row holds a prompt and several completions, told apart by a 4-D mask and by positions that restart
(`packing`). A layer that has state, that sees a window, or that ignores mask or positions computes something else there.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from components.config.training import LEAST_ROW
from components.errors import ConfigurationError
from components.identity import GroupKey
from components.models.stored_models import EXACT_BASES, find_fixed_positions
from components.schema import TrainGroup
from components.training.forward import PLAIN, answering, completion_logprobs, device_of
from components.training.packing import pack_groups
from components.training.row_attention import ROW_ATTENTION, RowTrees, attention_mask, list_calls
from components.training.token_logprobs import TokenQuery

_WINDOWS = {
    "sliding_attention": ("sliding_window", "attention_window_size", "window_size", "keep_window_size"),
    "chunked_attention": ("attention_chunk_size",),
}
"""The kinds of layers that see only near tokens, and the fields that may say how near. Other kinds than these and full
attention have state."""
_NUM_PROMPT_TOKENS = 24
_COMPLETION_LENGTHS = (12, 9)
_TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-3}
_HALF_TOLERANCE = 0.25
"""Differences of log-probabilities, as a share of the spread of the logits. Rounding in bfloat16 makes .04 in SmolLM2; a
token that sees what it should not makes about 1."""


def check_attention(model: Any) -> None:
    """Raise ConfigurationError unless the attention of `model` takes a prepared 4-D mask of booleans."""
    found = model.config.get_text_config()._attn_implementation
    if found != "sdpa":
        raise ConfigurationError(
            f"{type(model).__name__} has no scaled_dot_product_attention of torch, to which the trainer gives its mask "
            f"(transformers offers {found!r}); {EXACT_BASES}"
        )


def check_trainable(model: Any, *, share_prompts: bool, longest_row: int) -> None:
    """Raise ConfigurationError unless packed training computes what a plain forward of each completion computes.

    `longest_row` is the most tokens that a prompt and a completion may have. Two completions behind one prompt are tried, in
    the model's stored type, because no field says all that a model does.
    """
    name, text = type(model).__name__, model.config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ())
    window = shortest_window(text)
    if window is not None and window < longest_row:
        shorter = f"set training.tokens_per_micro_batch to at most {window}, or " if window >= LEAST_ROW else ""
        raise ConfigurationError(
            f"{name} sees a window of {window} tokens, and training.tokens_per_micro_batch {longest_row} allows longer prompts "
            f"with completions, in which the trainer would let every token see all: {shorter}{EXACT_BASES}"
        )
    fixed = find_fixed_positions(text)
    if fixed is not None and fixed < longest_row:
        raise ConfigurationError(
            f"{name} encodes the positions of a whole batch in another way when one row is longer than {fixed} tokens, as "
            f"training.tokens_per_micro_batch {longest_row} allows: set it to at most {fixed}, or {EXACT_BASES}"
        )
    stateful = sorted(kinds - {"full_attention", *_WINDOWS})
    if not (stateful and share_prompts) and is_exact(model, share_prompts=share_prompts):
        return
    apart = "set training.share_prompts to false, with which it is exact, or "
    raise ConfigurationError(
        f"{name} has {stateful or 'some'} layers that do not follow the trainer's mask and positions, so that the completions "
        "of a packed row would see each other: "
        f"{apart if share_prompts and is_exact(model, share_prompts=False) else ''}{EXACT_BASES}"
    )


@torch.no_grad()
def replace_where_exact(model: Any) -> None:
    """Replace the attention of `model` by that of rows, and let its output layer answer in place of logits.

    Each where a trial on eight tokens finds that the rest of the model lets it: what a model says of its attention is not
    always so, and some scale what their output layer gives. Elsewhere the model takes masks, and gives logits.
    """
    config, layer, device = model.config.get_text_config(), model.get_output_embeddings(), device_of(model)
    ends_T = np.asarray([8, 8, 5, 5, 5, 8, 7, 8])
    ends_S_T = torch.from_numpy(ends_T)[None].to(device)
    tokens_S_T = torch.arange(8, device=device)[None] % config.vocab_size
    positions_S_T = torch.tensor([[0, 1, 2, 3, 4, 2, 3, 3]], device=device)
    inputs = {"input_ids": tokens_S_T, "position_ids": positions_S_T, "use_cache": False}
    with_mask = {**inputs, "attention_mask": attention_mask(ends_S_T)}
    plain = _try_forward(model, with_mask)
    if plain is None:
        return
    if model._supports_attention_backend:
        trees = RowTrees(ends_S_T, tuple(list_calls(0, ends_T, least=2)))
        own_attention, config._attn_implementation = config._attn_implementation, ROW_ATTENTION
        found = _try_forward(model, {**inputs, "attention_mask": trees.no_mask, "row_trees": trees})
        largest = _TOLERANCES.get(model.dtype, _HALF_TOLERANCE) * float(plain.std(-1).mean())
        if found is None or not float((found - plain).abs().max()) <= largest:
            config._attn_implementation = own_attention
    if type(layer) is nn.Linear:
        query = TokenQuery(torch.ones(8, device=device), *torch.arange(8, device=device).expand(2, 8))
        answers: list[torch.Tensor] = []
        catch = layer.register_forward_hook(lambda _, __, given: answers.append(given.clone()))
        with answering(layer, query, None):
            found = _try_forward(model, with_mask)
        catch.remove()
        setattr(layer, PLAIN, found is not None and torch.equal(found, answers[0]))


def _try_forward(model: Any, inputs: Mapping[str, Any]) -> torch.Tensor | None:
    try:
        logits: torch.Tensor = model(**inputs).logits
    # A model that knows no such arguments fails anywhere in its own code, with any class.
    except Exception:
        return None
    return logits.float()


def is_exact(model: Any, *, share_prompts: bool) -> bool:
    """Whether packed rows of two completions get the log-probabilities of plain forwards, up to rounding."""
    return largest_error(model, share_prompts=share_prompts) <= _TOLERANCES.get(model.dtype, _HALF_TOLERANCE)


def shortest_window(config: Any) -> int | None:
    """The number of tokens that the nearest-sighted layers see; None if all see everything.

    Without `layer_types` every field that is set counts for all layers.
    """
    kinds = getattr(config, "layer_types", None) or _WINDOWS
    named = [getattr(config, field, None) for kind in _WINDOWS if kind in kinds for field in _WINDOWS[kind]]
    return min((value for value in named if isinstance(value, int)), default=None)


@torch.no_grad()
def largest_error(model: nn.Module, *, share_prompts: bool) -> float:
    """The largest difference between log-probabilities of packed and of plain forwards, as a share of the spread of the logits.

    Infinite if the model cannot compute packed rows at all.
    """
    group = _two_completions(int(model.config.get_text_config().vocab_size))  # type: ignore[union-attr,operator]
    (micro_batch,) = pack_groups([group], tokens_per_micro_batch=128, share_prompts=share_prompts)
    try:
        packed_N = completion_logprobs(model, micro_batch, temperature=1.0)
    # A model that knows no such mask or positions fails anywhere in its own code, with any class.
    except Exception:
        return float("inf")
    largest = spread = 0.0
    for candidate, completion in enumerate(group.completions_K_T):
        tokens_1_T = torch.tensor([group.prompt_tokens + completion], device=device_of(model))
        logits_T_V = model(input_ids=tokens_1_T, use_cache=False).logits[0, len(group.prompt_tokens) - 1 : -1].float()
        plain_T = logits_T_V.log_softmax(-1).gather(1, tokens_1_T[0, len(group.prompt_tokens) :, None])[:, 0]
        packed_T = packed_N[torch.from_numpy(micro_batch.candidates_N == candidate).to(packed_N.device)]
        largest = max(largest, float((packed_T - plain_T).abs().max()))
        spread = max(spread, float(logits_T_V.std(-1).mean()))
    return largest / spread if spread else largest


def _two_completions(vocabulary_size: int) -> TrainGroup:
    tokens = tuple((7 * place + 3) % vocabulary_size for place in range(_NUM_PROMPT_TOKENS + sum(_COMPLETION_LENGTHS)))
    prompt, rest = tokens[:_NUM_PROMPT_TOKENS], tokens[_NUM_PROMPT_TOKENS:]
    completions = (rest[: _COMPLETION_LENGTHS[0]], rest[_COMPLETION_LENGTHS[0] :])
    return TrainGroup(
        group=GroupKey(problem_id="probe", episode=0, turn=0, agent="probe"),
        prompt_tokens=prompt,
        completions_K_T=completions,
        sampler_logprobs_K_T=tuple((0.0,) * len(tokens) for tokens in completions),
        advantages_K=(0.0, 0.0),
    )
