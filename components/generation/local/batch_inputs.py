"""The inputs of one forward over a tree of candidates: which tokens are fed, and where they belong."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from components.generation.local.prompt_cache import KeyValues, Views
from components.generation.local.schedule import Integers, Schedule
from components.text.prefixes import common_length, token_order


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeInputs:
    """The M candidates whose newest tokens are fed. B = M candidates times key heads, candidate by candidate.

    Each candidate has a slot among those of its prompt, so that all candidates of a prompt are adjacent queries.
    """

    num_candidates: int
    num_slots: int
    """The maximum number of candidates per prompt."""
    prompts: tuple[Views, Views]
    answers: tuple[Views, Views]
    newest: tuple[Views, Views] | None
    """Where the fed tokens are stored if all are in one column, which is faster; else None."""
    cell_B: torch.Tensor
    """Where the fed tokens are stored, as an index over places, heads and columns."""
    slot_B: torch.Tensor
    """An index over prompts, heads and slots."""
    at_slot: torch.Tensor
    """The inverse of `slot_B`; 0 for an empty slot."""
    hidden_M_1_C: torch.Tensor | None
    """Masked columns of prompt and answer, concatenated; None if nothing is masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptInputs:
    """The P new prompts as T tokens, where what they begin with in common is fed once, and where each lies when they are
    right-padded to W columns."""

    first: int
    """The number of prompts held before."""
    token_P_W: torch.Tensor
    prompt_T: torch.Tensor
    """One of the prompts that have the token."""
    column_T: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockInputs:
    """Some columns of one prompt, whose earlier ones are stored. A column attends to no later one."""

    prompt: int
    column: int
    """The first of them."""
    seen_T_C: torch.Tensor
    """Whether each of them attends to each stored column or one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardInputs:
    """What attention needs to know about one forward; with a block nothing else is fed."""

    store: KeyValues
    running: DecodeInputs | None = None
    entering: PromptInputs | None = None
    block: BlockInputs | None = None


def feed_candidates(
    schedule: Schedule, length_H: Integers, store: KeyValues, *, num_candidates: int
) -> tuple[DecodeInputs, torch.Tensor]:
    """The inputs for the first candidates of a schedule, whose H prompts have `length_H` tokens, and their positions [M]."""
    prompt_M, column_M = schedule.prompt_M[:num_candidates], schedule.position_M[:num_candidates] - 1
    slot_M, num_slots = schedule.slots(num_candidates)
    length_M = length_H[prompt_M]
    heads, rows = np.arange(store.num_heads), np.arange(num_candidates * store.num_heads)
    cell_B = (rows.reshape(num_candidates, -1) * store.capacity.answer_columns + column_M[:, None]).ravel()
    slot_B = ((prompt_M[:, None] * store.num_heads + heads) * num_slots + slot_M[:, None]).ravel()
    at_slot = np.zeros(len(length_H) * store.num_heads * num_slots, dtype=np.int64)
    at_slot[slot_B] = rows
    prompt_columns, answer_columns = int(length_H.max()), int(column_M.max()) + 1
    hidden = None
    if length_M.min() < prompt_columns or column_M.min() + 1 < answer_columns:
        on_prompt = np.arange(prompt_columns) >= length_M[:, None]
        on_answer = np.arange(answer_columns) > column_M[:, None]
        hidden = np.concatenate([on_prompt, on_answer], axis=1)[:, None]
    running = DecodeInputs(
        num_candidates=num_candidates,
        num_slots=num_slots,
        prompts=store.prompts(len(length_H), prompt_columns),
        answers=store.answers(num_candidates, answer_columns),
        newest=store.newest(num_candidates, answer_columns - 1) if column_M.min() + 1 == answer_columns else None,
        cell_B=store.upload(cell_B),
        slot_B=store.upload(slot_B),
        at_slot=store.upload(at_slot),
        hidden_M_1_C=None if hidden is None else store.upload(hidden),
    )
    return running, store.upload(length_M + column_M)


def feed_block(
    prompt_tokens: Sequence[int], column: int, size: int, store: KeyValues, *, prompt: int
) -> tuple[BlockInputs, torch.Tensor, torch.Tensor]:
    """The inputs for `size` columns of a prompt, their tokens and their positions. What is beyond its end repeats the last
    token: a model may have no positions there."""
    columns = np.arange(column, column + size)
    positions = np.minimum(columns, len(prompt_tokens) - 1)
    tokens = np.array(prompt_tokens[column : column + size], dtype=np.int64)[positions - column]
    seen = np.arange(column + size) <= columns[:, None]
    inputs = BlockInputs(prompt=prompt, column=column, seen_T_C=store.upload(seen))
    return inputs, store.upload(tokens), store.upload(positions)


def feed_prompts(
    prompts_P: Sequence[tuple[int, ...]], store: KeyValues, *, first: int
) -> tuple[PromptInputs, Integers, Integers]:
    """The inputs for new prompts, stored after the first `first` ones; the T tokens that are fed; each prompt's last, (P,).

    **Example** prompts (5, 8) and (5, 6, 7): tokens 5, 6, 7, 8; padded, [[0, 3, 3], [0, 1, 2]]; last 3, 2.
    """
    keys_P = [token_order(prompt) for prompt in prompts_P]
    token_P_W = np.zeros((len(prompts_P), max(map(len, prompts_P))), dtype=np.int64)
    tokens, prompt_T, column_T = ([np.empty(0, dtype=np.int64)] for _ in range(3))
    num_fed = 0
    before: int | None = None
    for prompt in sorted(range(len(prompts_P)), key=keys_P.__getitem__):
        length = len(prompts_P[prompt])
        shared = 0 if before is None else common_length(keys_P[before], keys_P[prompt])
        if before is not None:
            token_P_W[prompt, :shared] = token_P_W[before, :shared]
        token_P_W[prompt, shared:length] = np.arange(num_fed, num_fed + length - shared)
        token_P_W[prompt, length:] = token_P_W[prompt, length - 1]
        tokens.append(np.array(prompts_P[prompt][shared:], dtype=np.int64))
        prompt_T.append(np.full(length - shared, prompt))
        column_T.append(np.arange(shared, length))
        num_fed += length - shared
        before = prompt
    inputs = PromptInputs(
        first=first,
        token_P_W=store.upload(token_P_W),
        prompt_T=store.upload(np.concatenate(prompt_T)),
        column_T=store.upload(np.concatenate(column_T)),
    )
    return inputs, np.concatenate(tokens), token_P_W[:, -1]
