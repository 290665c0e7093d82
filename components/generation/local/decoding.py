"""Continuous batching over any Hugging Face causal language model: one token per step for all live candidates.

A step feeds the newest token of each running candidate and the prompts of new rows, concatenated without padding; what new
prompts begin with in common is fed once. Candidates of one prompt share its keys and values; a finished one frees its place at
once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from components.errors import ConfigurationError
from components.generation.local.batch_inputs import ForwardInputs, feed_block, feed_candidates, feed_prompts
from components.generation.local.batching import Capacity, Row, pad_columns
from components.generation.local.prefix_cache import BLOCK_TOKENS, PrefixCache
from components.generation.local.prompt_cache import KeyValues
from components.generation.local.schedule import Admission, Schedule
from components.generation.local.tree_attention import TREE_ATTENTION
from components.models.stored_models import EXACT_BASES
from components.reporting.progress_share import report_share

Choose = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""(logits [M, V], candidate indices [M], positions [M]) -> (tokens [M], whether each is its candidate's last [M])."""


@torch.inference_mode()
def decode(
    model: Any, rows: Sequence[Row], choose: Choose, *, capacity: Capacity, prefixes: PrefixCache | None = None
) -> None:
    """Feed `rows` through `model`; `choose` picks each candidate's next token and collects the results.

    `choose` sees each candidate exactly once per position, in order. With `prefixes` prompts are read in blocks, which are kept
    there, one prompt after the other. Raises ConfigurationError for a model whose attention cannot be replaced or that has
    other state.
    """
    _use_tree_attention(model)
    batch = _Batch(model, rows, capacity if prefixes is None else pad_columns(capacity, BLOCK_TOKENS), prefixes)
    while batch.admit():
        tokens_M, last_M = choose(batch.logits(), *batch.numbers())
        batch.follow(tokens_M, last_M.cpu().numpy())
        report_share(batch.share_done())


def has_tree_attention(model: Any) -> bool:
    """Whether the attention of `model` has been replaced already."""
    return bool(model.config.get_text_config()._attn_implementation == TREE_ATTENTION)


def check_attention(model: Any) -> None:
    """Raise ConfigurationError for a model that says that its attention cannot be replaced, or that it has other state."""
    if not model._supports_attention_backend or model._is_stateful:
        raise ConfigurationError(
            f"{type(model).__name__}: the transformers engine computes attention itself, over concatenated answers, and this "
            f"model has state or no attention that can be replaced: {EXACT_BASES}, or set generation.engine to vllm"
        )


def _use_tree_attention(model: Any) -> None:
    if not has_tree_attention(model):
        check_attention(model)
        model.config.get_text_config()._attn_implementation = TREE_ATTENTION


class _Batch:
    """A batch being decoded: the model, the schedule, and the cache of keys and values."""

    def __init__(self, model: Any, rows: Sequence[Row], capacity: Capacity, prefixes: PrefixCache | None) -> None:
        self._model, self._rows, self._prefixes = model, rows, prefixes
        self._schedule = Schedule(rows, capacity)
        self._store = KeyValues(model.config.get_text_config().num_hidden_layers, capacity, model.device)
        self._length_R = np.array([len(row.prompt_tokens) for row in rows])
        self._num_candidates, self._num_finished = sum(len(row.candidates) for row in rows), 0
        self._longest_answer = max(row.max_new_tokens for row in rows)
        self._newest_M = torch.empty(0, dtype=torch.long, device=model.device)
        """Of the running candidates, which already have a token."""
        self._admission = Admission(rows=[], joining=[])
        self._after_prompt: dict[int, torch.Tensor] = {}
        """Logits [V] of the first token, for each row with waiting candidates."""

    def admit(self) -> bool:
        """Admit waiting candidates up to capacity; False when no candidate is live."""
        self._admission = self._schedule.admit()
        return self._schedule.num_live > 0

    def numbers(self) -> torch.Tensor:
        """Candidate indices and positions [2, M]."""
        return self._store.upload(np.stack([self._schedule.candidate_M, self._schedule.position_M]))

    def logits(self) -> torch.Tensor:
        """Feed new tokens and prompts; the logits [M, V] of each live candidate's next token."""
        num_running, entering = len(self._newest_M), self._admission.rows
        if self._prefixes is not None:
            for place, row in enumerate(entering, len(self._schedule.row_H) - len(entering)):
                self._after_prompt[row] = self._read(self._prefixes, self._rows[row].prompt_tokens, place)
            entering = []
        if not (num_running or entering):
            return self._joining_logits()
        logits = self._feed(num_running, entering)
        if not self._admission.joining:
            return logits
        self._after_prompt |= zip(entering, logits[num_running:], strict=True)
        return torch.cat([logits[:num_running], self._joining_logits()])

    def follow(self, tokens_M: torch.Tensor, finished_M: npt.NDArray[np.bool_]) -> None:
        """Append the chosen tokens and release finished candidates."""
        self._schedule.position_M += 1
        self._newest_M = tokens_M
        if not finished_M.any():
            return
        self._num_finished += int(finished_M.sum())
        columns = int(self._schedule.position_M.max())
        places, prompts = self._schedule.leave(finished_M)
        self._store.move(places, prompts, answer_columns=columns)
        self._newest_M[self._store.upload(places[0])] = self._newest_M[self._store.upload(places[1])]
        self._newest_M = self._newest_M[: self._schedule.num_live]

    def share_done(self) -> float:
        """The answers that are finished, and of the others the tokens against the longest answer."""
        begun = float(self._schedule.position_M.sum()) / self._longest_answer
        return (self._num_finished + begun) / self._num_candidates

    def _feed(self, num_running: int, entering: list[int]) -> torch.Tensor:
        """The logits after the newest token of each running candidate and after each new prompt."""
        tokens, positions, running, entered = [self._newest_M], [], None, None
        kept: torch.Tensor | int = 0
        num_held = len(self._schedule.row_H) - len(entering)
        if num_running:
            length_H = self._length_R[self._schedule.row_H[:num_held]]
            running, position_M = feed_candidates(self._schedule, length_H, self._store, num_candidates=num_running)
            positions.append(position_M)
        if entering:
            prompts_P = [self._rows[row].prompt_tokens for row in entering]
            entered, token_T, last_P = feed_prompts(prompts_P, self._store, first=num_held)
            tokens.append(self._store.upload(token_T))
            positions.append(entered.column_T)
            kept = self._store.upload(np.append(np.arange(num_running), num_running + last_P))
        logits: torch.Tensor = self._model(
            input_ids=torch.cat(tokens)[None],
            position_ids=torch.cat(positions)[None],
            use_cache=False,
            logits_to_keep=kept,
            fed=ForwardInputs(store=self._store, running=running, entering=entered),
        ).logits[0]
        return logits

    def _read(self, prefixes: PrefixCache, prompt: tuple[int, ...], place: int) -> torch.Tensor:
        """The logits [V] after a prompt, of which what is not kept is fed block by block."""
        blocks = prefixes.find(prompt)
        for number, block in enumerate(blocks):
            self._store.put_block(place, number * BLOCK_TOKENS, block)
        logits: torch.Tensor | None = None
        for column in range(len(blocks) * BLOCK_TOKENS, len(prompt), BLOCK_TOKENS):
            fed, token_T, position_T = feed_block(prompt, column, BLOCK_TOKENS, self._store, prompt=place)
            last = np.array([min(len(prompt) - column, BLOCK_TOKENS) - 1])
            logits = self._model(
                input_ids=token_T[None],
                position_ids=position_T[None],
                use_cache=False,
                logits_to_keep=self._store.upload(last),
                fed=ForwardInputs(store=self._store, block=fed),
            ).logits[0, 0]
            blocks.append(self._store.copy_block(place, column, BLOCK_TOKENS))
        prefixes.keep(prompt, blocks)
        assert logits is not None, "a prompt without tokens"
        return logits

    def _joining_logits(self) -> torch.Tensor:
        """The logits [J, V] of the first token of each admitted candidate."""
        rows, counts = zip(*self._admission.joining, strict=True)
        counts_J = self._store.upload(np.array(counts))
        logits = torch.stack([self._after_prompt[row] for row in rows]).repeat_interleave(counts_J, dim=0)
        for row in rows:
            if row not in self._schedule.num_admitted:
                del self._after_prompt[row]
        return logits
