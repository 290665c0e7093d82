"""Tree attention: many candidates that continue few prompts, in one sequence of a forward.

The sequence is the newest tokens of running candidates, then new prompts, without padding and without repeating what they
begin with in common; all operations except attention work token by token. A candidate attends to its prompt, whose keys are
read once for all its candidates, and to its own answer, under one softmax. Sources: Yu et al., "Orca", OSDI 2022 (selective
batching); Athiwaratkun et al., "Bifurcated attention", arXiv 2403.08845 (shared prompts).
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from components.errors import ConfigurationError
from components.generation.local.batch_inputs import BlockInputs, DecodeInputs, ForwardInputs, PromptInputs
from components.generation.local.prompt_cache import KeyValues
from components.models.stored_models import EXACT_BASES

TREE_ATTENTION = "troupe_tree"
"""The name under which it is registered in transformers."""


def tree_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    fed: ForwardInputs | None = None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of [1, heads, tokens, head_dim], as [1, tokens, heads, head_dim], under transformers' protocol.

    Raises ConfigurationError for a model whose attention is not a plain scaled, causal softmax.
    """
    if more := [
        name for name in ("softcap", "s_aux", "position_bias", "sliding_window") if others.get(name) is not None
    ]:
        raise ConfigurationError(
            f"{type(module).__name__} uses {more}, which the transformers engine does not compute: {EXACT_BASES}, or set "
            "generation.engine to vllm"
        )
    if fed is None:
        raise ConfigurationError(
            f"{type(module).__name__} passes no arguments on to its attention, which the transformers engine replaces: "
            f"{EXACT_BASES}, or set generation.engine to vllm"
        )
    tokens = tuple(each.transpose(1, 2)[0] for each in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    running, entering = fed.running, fed.entering
    if fed.block is not None:
        return _attend_block(module.layer_idx, tokens, fed.store, fed.block, scale)[None], None
    if entering is None:
        assert running is not None, "a forward without tokens"
        return _attend_newest(module.layer_idx, tokens, fed.store, running, scale)[None], None
    if running is None:
        return _attend_prompts(module.layer_idx, tokens, fed.store, entering, scale)[None], None
    sizes = [running.num_candidates, len(entering.prompt_T)]
    newest, whole = zip(*(torch.split(each, sizes) for each in tokens), strict=True)
    found = (
        _attend_newest(module.layer_idx, newest, fed.store, running, scale),
        _attend_prompts(module.layer_idx, whole, fed.store, entering, scale),
    )
    return torch.cat(found)[None], None


def _attend_newest(
    layer: int, newest: tuple[torch.Tensor, ...], store: KeyValues, running: DecodeInputs, scale: float
) -> torch.Tensor:
    """Attention of one token [M, heads, head_dim] per running candidate. B = its key heads, candidate by candidate."""
    query_M, *key_value_M = newest
    for cells, each_M in zip(running.newest or store.cells, key_value_M, strict=True):
        if running.newest is not None:
            cells[layer].copy_(each_M)
        else:
            cells[layer].index_copy_(0, running.cell_B, each_M.reshape(-1, each_M.shape[-1]))
    (prompt_keys, prompt_values), (answer_keys, answer_values) = (
        (keys[layer], values[layer]) for keys, values in (running.prompts, running.answers)
    )
    query_B = (query_M * scale).reshape(len(running.cell_B), -1, query_M.shape[-1])
    on_prompt = _from_slots(torch.bmm(_in_slots(query_B, running), prompt_keys), running)
    scores_B = torch.cat([on_prompt, torch.bmm(query_B, answer_keys)], dim=-1)
    if running.hidden_M_1_C is not None:
        scores_B.view(len(query_M), -1, scores_B.shape[-1]).masked_fill_(running.hidden_M_1_C, -torch.inf)
    weights_B = scores_B.softmax(dim=-1, dtype=torch.float32).to(query_M.dtype)
    on_prompt, on_answer = torch.split(weights_B, [prompt_keys.shape[-1], answer_keys.shape[-1]], dim=-1)
    from_prompt = _from_slots(torch.bmm(_in_slots(on_prompt, running), prompt_values), running)
    return torch.baddbmm(from_prompt, on_answer, answer_values).reshape(len(query_M), -1, from_prompt.shape[-1])


def _in_slots(each_B: torch.Tensor, running: DecodeInputs) -> torch.Tensor:
    """Candidates [B, queries, X] grouped by prompt: [prompts * heads, slots * queries, X]."""
    _, num_queries, width = each_B.shape
    return each_B.index_select(0, running.at_slot).reshape(-1, running.num_slots * num_queries, width)


def _from_slots(slots: torch.Tensor, running: DecodeInputs) -> torch.Tensor:
    """The inverse: [B, queries, X]."""
    return slots.reshape(len(running.at_slot), -1, slots.shape[-1]).index_select(0, running.slot_B)


def _attend_prompts(
    layer: int, whole: tuple[torch.Tensor, ...], store: KeyValues, entering: PromptInputs, scale: float
) -> torch.Tensor:
    """Attention of all tokens [T, heads, head_dim] of new prompts. The causal mask hides padding, which is on the right."""
    query, key, value = (each[entering.token_P_W].transpose(1, 2) for each in whole)
    store.put_prompts(layer, entering.first, key, value)
    grouped = query.shape[1] != key.shape[1]
    found = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scale, enable_gqa=grouped)
    return found[entering.prompt_T, :, entering.column_T]


def _attend_block(
    layer: int, block: tuple[torch.Tensor, ...], store: KeyValues, fed: BlockInputs, scale: float
) -> torch.Tensor:
    """Attention of some columns [T, heads, head_dim] of one prompt to those before them and to themselves."""
    query, key, value = (each.transpose(0, 1)[None] for each in block)
    store.put_prompts(layer, fed.prompt, key, value, column=fed.column)
    keys, values = store.prompt(layer, fed.prompt, fed.seen_T_C.shape[1])
    grouped = query.shape[1] != keys.shape[1]
    found = scaled_dot_product_attention(query, keys, values, attn_mask=fed.seen_T_C, scale=scale, enable_gqa=grouped)
    return found[0].transpose(0, 1)


AttentionInterface.register(TREE_ATTENTION, tree_attention)
