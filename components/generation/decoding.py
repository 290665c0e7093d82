"""Batched decoding over any Hugging Face causal language model: prompts once, then one token a step for all candidates.

The candidates of a row are query positions of one sequence: they attend to the prompt's columns and to their own, and a
mask hides the other candidates' columns. So K candidates need neither K prefills nor K copies of the prompt's keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from components.generation.batching import Row
from components.generation.prompt_cache import prompt_cache

Choose = Callable[[torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]
"""(logits [M, V], candidate numbers [M], position) -> (tokens [M], whether each is its candidate's last [M])."""

_PROMPT, _PADDING, _FREE = -1, -2, -3
"""Owners of columns, and holders of query slots, that are no candidate."""
_COMPACT_BELOW = 0.75
"""Rows are dropped from the cache once at most this share of them is alive: copying the rest costs about one step."""


@dataclass(slots=True)
class _State:
    """What a decode step reads and the next one changes. R rows, S slots a row, C columns."""

    cache: Any
    slot_R_S: torch.Tensor
    """The candidate that each query slot serves, or _FREE."""
    owner_R_C: torch.Tensor
    """Whose token each column holds: a candidate, _PROMPT, _PADDING or _FREE."""
    num_columns: int
    prompt_length_R: torch.Tensor
    masked: bool
    """False when every column of a row belongs to its only candidate, so that no mask is needed."""


@torch.inference_mode()
def decode(model: Any, rows: Sequence[Row], choose: Choose, *, pad_token: int) -> None:
    """Feed `rows` through `model` step by step; `choose` sees each candidate's logits and says how it goes on.

    `choose` collects the results: it is called with each live candidate's number exactly once a position.
    """
    device = model.device
    last_logits_P_V, state = _prefill(model, rows, pad_token)
    num_candidates = 1 + max(max(row.candidates) for row in rows)
    newest_N = torch.zeros(num_candidates, dtype=torch.long, device=device)
    logits_R_S_V = last_logits_P_V[:, None].expand(-1, state.slot_R_S.shape[1], -1)
    for position in range(max(row.max_new_tokens for row in rows)):
        alive_R_S = state.slot_R_S >= 0
        candidates_M = state.slot_R_S[alive_R_S]
        tokens_M, last_M = choose(logits_R_S_V[alive_R_S], candidates_M, position)
        newest_N[candidates_M] = tokens_M
        if bool(last_M.all()):
            return
        if bool(last_M.any()):
            alive_R_S[alive_R_S.clone()] = ~last_M
            _compact(state, alive_R_S)
        logits_R_S_V = _step(model, state, newest_N, position)


def _prefill(model: Any, rows: Sequence[Row], pad_token: int) -> tuple[torch.Tensor, _State]:
    """Run each distinct prompt once, left-padded to the longest; return each row's next-token logits and the state."""
    device = model.device
    prompts = {row.prompt_tokens: None for row in rows}
    number = {prompt: index for index, prompt in enumerate(prompts)}
    width = max(map(len, prompts))
    ids = [(pad_token,) * (width - len(prompt)) + prompt for prompt in prompts]
    ids_P_W = torch.tensor(ids, device=device)
    length_P = torch.tensor([len(prompt) for prompt in prompts], device=device)
    cache = prompt_cache(model.config.get_text_config().num_hidden_layers)
    padded = bool((length_P < width).any())
    inputs = _padded_inputs(length_P, width, model.dtype) if padded else {}
    logits_P_V = model(input_ids=ids_P_W, past_key_values=cache, use_cache=True, logits_to_keep=1, **inputs).logits[
        :, -1
    ]

    prompt_of_row_R = torch.tensor([number[row.prompt_tokens] for row in rows], device=device)
    num_slots = max(len(row.candidates) for row in rows)
    slots = [[*row.candidates, *[_FREE] * (num_slots - len(row.candidates))] for row in rows]
    num_columns = width + num_slots * (max(row.max_new_tokens for row in rows) - 1)
    for layer in cache.layers:
        layer.reserve(prompt_of_row_R, num_columns)
    owner_R_C = torch.full((len(rows), num_columns), _FREE, device=device)
    prompt_length_R = length_P[prompt_of_row_R]
    is_token_R_W = torch.arange(width, device=device) >= width - prompt_length_R[:, None]
    owner_R_C[:, :width] = torch.where(is_token_R_W, _PROMPT, _PADDING)
    state = _State(
        cache=cache,
        slot_R_S=torch.tensor(slots, device=device),
        owner_R_C=owner_R_C,
        num_columns=width,
        prompt_length_R=prompt_length_R,
        masked=padded or num_slots > 1,
    )
    return logits_P_V[prompt_of_row_R], state


def _padded_inputs(length_P: torch.Tensor, width: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Positions that start at 0 on the first real token, and a causal mask that hides the padding."""
    columns_W = torch.arange(width, device=length_P.device)
    padding_P = width - length_P
    is_token_P_W = columns_W >= padding_P[:, None]
    visible_P_W_W = (columns_W[None, :] <= columns_W[:, None]) & is_token_P_W[:, None, :]
    return {
        "position_ids": (columns_W - padding_P[:, None]).clamp_(min=0),
        "attention_mask": _additive(visible_P_W_W, dtype),
    }


def _additive(visible_B_Q_C: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A mask [B, 1, Q, C] to be added to attention scores. The lowest finite value keeps rows that see nothing free of NaN."""
    mask = torch.zeros(visible_B_Q_C.shape, dtype=dtype, device=visible_B_Q_C.device)
    return mask.masked_fill_(~visible_B_Q_C, torch.finfo(dtype).min)[:, None]


def _step(model: Any, state: _State, newest_N: torch.Tensor, position: int) -> torch.Tensor:
    """Feed every live candidate its newest token; return the logits [R, S, V] of what follows."""
    slot_R_S = state.slot_R_S
    end = state.num_columns + slot_R_S.shape[1]
    state.owner_R_C[:, state.num_columns : end] = slot_R_S
    state.num_columns = end
    mask = None
    if state.masked:
        owner_R_1_C = state.owner_R_C[:, None, :end]
        mask = _additive((owner_R_1_C == _PROMPT) | (owner_R_1_C == slot_R_S[:, :, None]), model.dtype)
    logits: torch.Tensor = model(
        input_ids=newest_N[slot_R_S.clamp(min=0)],
        position_ids=(state.prompt_length_R + position)[:, None].expand(slot_R_S.shape),
        attention_mask=mask,
        past_key_values=state.cache,
        use_cache=True,
    ).logits
    return logits


def _compact(state: _State, alive_R_S: torch.Tensor) -> None:
    """Move the live candidates of each row to its first slots, drop slots that no row needs, and rows when that pays."""
    live_rows = alive_R_S.any(dim=1)
    if int(live_rows.sum()) <= _COMPACT_BELOW * len(live_rows):
        kept = live_rows.nonzero()[:, 0]
        for layer in state.cache.layers:
            layer.keep_rows(kept)
        state.owner_R_C = state.owner_R_C[kept]
        state.slot_R_S, alive_R_S = state.slot_R_S[kept], alive_R_S[kept]
        state.prompt_length_R = state.prompt_length_R[kept]
    num_slots = int(alive_R_S.sum(dim=1).max())
    order_R_S = alive_R_S.int().argsort(dim=1, descending=True, stable=True)[:, :num_slots]
    slot_R_S = state.slot_R_S.gather(1, order_R_S)
    state.slot_R_S = torch.where(alive_R_S.gather(1, order_R_S), slot_R_S, _FREE)
