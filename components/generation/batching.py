"""Which candidates decode together: requests become rows, rows become batches. Pure, and a function of the order alone.

A row is one prompt with up to `num_slots` candidates that share its keys and values. Within a row the keys of all its
candidates lie side by side and a mask keeps them apart, so a row costs `prompt + slots * new tokens` columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from components.errors import ConfigurationError

_COLUMNS_PER_PROMPT_TOKEN = 4
"""A row takes more candidates until their columns outnumber the prompt's by this factor: beyond it, attending to masked
columns costs more than another copy of the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prompt and the flat numbers of the candidates that continue it; `max_new_tokens` is the longest allowed."""

    prompt_tokens: tuple[int, ...]
    candidates: tuple[int, ...]
    max_new_tokens: int


def slots_per_row(num_prompt_tokens: int, max_new_tokens: int, *, max_tokens: int) -> int:
    """How many candidates share one row.

    **Example** a prompt of 32 tokens and answers of 11: 4 * 32 // 11 = 11 candidates, so a group of 8 is one row. With
    answers of 512 it is 1: each candidate gets its own row and a copy of the prompt's keys.

    Raises ConfigurationError when not even one candidate fits into `max_tokens`.
    """
    if num_prompt_tokens + max_new_tokens > max_tokens:
        raise ConfigurationError(
            f"generation.max_batch_tokens {max_tokens}: a prompt of {num_prompt_tokens} tokens and an answer of "
            f"{max_new_tokens} do not fit; raise it to at least {num_prompt_tokens + max_new_tokens}"
        )
    sharing = _COLUMNS_PER_PROMPT_TOKEN * num_prompt_tokens // max_new_tokens
    fitting = (max_tokens - num_prompt_tokens) // max_new_tokens
    return max(1, min(sharing, fitting))


def rows_of(
    prompts_R: Sequence[tuple[int, ...]],
    num_candidates_R: Sequence[int],
    max_new_tokens_R: Sequence[int],
    *,
    max_tokens: int,
) -> list[Row]:
    """The rows of R requests in their order. Candidates are numbered through: request 0 first, each in seed order.

    **Example** 8 candidates of which 6 may share a row become two rows of 4.
    """
    rows: list[Row] = []
    first = 0
    for prompt, count, max_new_tokens in zip(prompts_R, num_candidates_R, max_new_tokens_R, strict=True):
        most = slots_per_row(len(prompt), max_new_tokens, max_tokens=max_tokens)
        slots = -(-count // -(-count // most))
        for start in range(first, first + count, slots):
            members = tuple(range(start, min(start + slots, first + count)))
            rows.append(Row(prompt_tokens=prompt, candidates=members, max_new_tokens=max_new_tokens))
        first += count
    return rows


def batches_of(rows: Sequence[Row], *, max_tokens: int) -> Iterator[list[Row]]:
    """Consecutive rows whose padded columns stay within `max_tokens`.

    The columns of a batch are its rows times (longest prompt + most slots * longest answer).
    """
    batch: list[Row] = []
    widest = (0, 0, 0)
    for row in rows:
        sizes = (len(row.prompt_tokens), len(row.candidates), row.max_new_tokens)
        wider = (max(widest[0], sizes[0]), max(widest[1], sizes[1]), max(widest[2], sizes[2]))
        if batch and (len(batch) + 1) * (wider[0] + wider[1] * wider[2]) > max_tokens:
            yield batch
            batch, wider = [], sizes
        batch.append(row)
        widest = wider
    if batch:
        yield batch
