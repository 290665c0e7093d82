"""A trial of the engine on a model when it is loaded: what a model says of its attention is not always so."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from components.errors import ConfigurationError
from components.generation.local.decoding import check_attention, has_tree_attention
from components.models.stored_models import EXACT_BASES

Scored = Callable[[tuple[int, ...], tuple[int, ...]], tuple[float, ...]]
"""(prompt, completion) -> the engine's log-probability of each token of the completion."""
_NUM_TOKENS = 36
_TOLERANCES = {torch.float32: 1e-3, torch.float64: 1e-3}
_HALF_TOLERANCE = 0.25
"""Differences of log-probabilities, as a share of the spread of the logits. Rounding in bfloat16 makes .04 in SmolLM2; a
model that keeps to an attention of its own, as DiffLlama, makes more than 1."""


def check_engine(
    model: Any, scored: Scored, *, computing: AbstractContextManager[Any], most_tokens: int | None
) -> None:
    """Raise ConfigurationError unless the engine computes what a forward of `model` in `computing` computes, up to rounding.

    A shared base whose attention has been replaced was tried by another generator, and is not tried again. If a model is
    refused, its own attention is put back.
    """
    config = model.config.get_text_config()
    num_tokens = min(_NUM_TOKENS, most_tokens or _NUM_TOKENS)
    tokens = tuple((7 * place + 3) % int(config.vocab_size) for place in range(num_tokens))
    prompt, completion = tokens[: 2 * num_tokens // 3], tokens[2 * num_tokens // 3 :]
    with computing:
        if has_tree_attention(model):
            return
        check_attention(model)
        own_attention = config._attn_implementation
        plain_T, spread = _plain(model, prompt, completion)
    is_exact = False
    try:
        error = float((torch.tensor(scored(prompt, completion)) - plain_T).abs().max())
        is_exact = error <= _TOLERANCES.get(model.dtype, _HALF_TOLERANCE) * spread  # not so for what is no number
    finally:
        if not is_exact:
            config._attn_implementation = own_attention
    if not is_exact:
        raise ConfigurationError(
            f"{type(model).__name__}: the transformers engine computes attention itself, and log-probabilities of this model "
            f"differ by {error:.2g} from those of its own forward: {EXACT_BASES}, or set generation.engine to vllm"
        )


@torch.inference_mode()
def _plain(model: Any, prompt: tuple[int, ...], completion: tuple[int, ...]) -> tuple[torch.Tensor, float]:
    """Log-probabilities of the completion by a forward of the model as it is, and the spread of its logits."""
    tokens_1_T = torch.tensor([prompt + completion], device=model.device)
    logits_T_V = model(input_ids=tokens_1_T, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
    logprobs_T = logits_T_V.log_softmax(-1).gather(1, tokens_1_T[0, len(prompt) :, None])[:, 0]
    return logprobs_T.cpu(), float(logits_T_V.std(-1).mean())
