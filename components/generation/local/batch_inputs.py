"""The inputs of one forward over a tree of candidates: which tokens are fed, and where they belong."""

from dataclasses import dataclass

import numpy as np
import torch

from components.generation.local.prompt_cache import KeyValues, Views
from components.generation.local.schedule import Integers, Schedule


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
    """The P new prompts, concatenated, and where each token lies when they are right-padded to W columns."""

    first: int
    """The number of prompts held before."""
    token_P_W: torch.Tensor
    prompt_T: torch.Tensor
    column_T: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardInputs:
    """What attention needs to know about one forward."""

    store: KeyValues
    running: DecodeInputs | None
    entering: PromptInputs | None


def fed_candidates(
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
        cell_B=store.uploaded(cell_B),
        slot_B=store.uploaded(slot_B),
        at_slot=store.uploaded(at_slot),
        hidden_M_1_C=None if hidden is None else store.uploaded(hidden),
    )
    return running, store.uploaded(length_M + column_M)


def fed_prompts(lengths_P: Integers, store: KeyValues, *, first: int) -> PromptInputs:
    """The inputs for new prompts of these lengths, stored after the first `first` prompts.

    **Example** lengths 2 and 3: tokens 0, 1 are prompt 0 and 2, 3, 4 are prompt 1; padded, [[0, 1, 1], [2, 3, 4]].
    """
    begins_P = np.cumsum(lengths_P) - lengths_P
    columns_W = np.arange(lengths_P.max())
    prompt_T = np.repeat(np.arange(len(lengths_P)), lengths_P)
    return PromptInputs(
        first=first,
        token_P_W=store.uploaded(begins_P[:, None] + np.minimum(columns_W, lengths_P[:, None] - 1)),
        prompt_T=store.uploaded(prompt_T),
        column_T=store.uploaded(np.arange(len(prompt_T)) - begins_P[prompt_T]),
    )
