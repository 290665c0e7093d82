"""Batching: requests become rows, one per distinct prompt, and rows become batches. Deterministic in their order.

A batch has room for the keys and values of some prompts and places for some candidates; other rows wait for free places.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from components.errors import ConfigurationError

_SPREAD = 4
"""Limit on the live candidates of a prompt, relative to the mean: attention to prompts is padded to the maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prompt and the flat indices of its candidates; `max_new_tokens` is the largest of their limits."""

    prompt_tokens: tuple[int, ...]
    candidates: tuple[int, ...]
    max_new_tokens: int

    @property
    def num_tokens(self) -> int:
        """The prompt and one whole answer."""
        return len(self.prompt_tokens) + self.max_new_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How much a batch holds at once."""

    num_prompts: int
    num_places: int
    """For candidates."""
    candidates_per_prompt: int
    """Live at once."""
    prompt_columns: int
    answer_columns: int
    """Per candidate."""


def rows_of(
    prompts_R: Sequence[tuple[int, ...]], num_candidates_R: Sequence[int], max_new_tokens_R: Sequence[int]
) -> list[Row]:
    """The distinct prompts of R requests in order of appearance, each with the candidates of all its requests.

    Candidates are numbered consecutively by request and seed.

    **Example** prompts a, b, a with 2, 1, 2 candidates: row a has candidates 0, 1, 3, 4 and row b has candidate 2.
    """
    members: dict[tuple[int, ...], list[int]] = {}
    longest: dict[tuple[int, ...], int] = {}
    first = 0
    for prompt, count, max_new_tokens in zip(prompts_R, num_candidates_R, max_new_tokens_R, strict=True):
        members.setdefault(prompt, []).extend(range(first, first + count))
        longest[prompt] = max(longest.get(prompt, 0), max_new_tokens)
        first += count
    return [
        Row(prompt_tokens=prompt, candidates=tuple(candidates), max_new_tokens=longest[prompt])
        for prompt, candidates in members.items()
    ]


def capacity_of(rows: Sequence[Row], *, max_tokens: int) -> Capacity:
    """What a batch of `rows` holds at once within `max_tokens`, with all columns padded to the longest.

    If not everything fits: twice as many prompts as would fill the places, so that long answers leave no places empty.

    **Example** 100 prompts of 20 tokens with 8 answers of 10 each take 10000 tokens; 1200 hold 20 prompts and 80 places.
    """
    prompt, answer = max(len(row.prompt_tokens) for row in rows), max(row.max_new_tokens for row in rows)
    num_candidates = sum(len(row.candidates) for row in rows)
    mean = -(-num_candidates // len(rows))
    num_prompts, num_places = len(rows), num_candidates
    if num_prompts * prompt + num_places * answer > max_tokens:
        num_prompts = min(len(rows), max(1, max_tokens // (prompt + -(-mean // 2) * answer)))
        num_places = min(num_candidates, (max_tokens - num_prompts * prompt) // answer)
    assert num_places >= 1, (prompt, answer, max_tokens)
    return Capacity(
        num_prompts=num_prompts,
        num_places=num_places,
        candidates_per_prompt=_SPREAD * mean,
        prompt_columns=prompt,
        answer_columns=answer,
    )


def pad_columns(capacity: Capacity, size: int) -> Capacity:
    """The capacity with columns of prompts for whole blocks of `size`."""
    return replace(capacity, prompt_columns=-(-capacity.prompt_columns // size) * size)


def batches_of(rows: Sequence[Row], *, max_tokens: int) -> list[list[Row]]:
    """All rows as one batch if they fit at once; otherwise longest first, no row shorter than half the longest of its batch.

    Raises ConfigurationError when a prompt with one answer does not fit into `max_tokens`.
    """
    for row in rows:
        if row.num_tokens > max_tokens:
            raise ConfigurationError(
                f"generation.max_batch_tokens {max_tokens}: a prompt of {len(row.prompt_tokens)} tokens and an answer of "
                f"{row.max_new_tokens} do not fit; raise it to at least {row.num_tokens}"
            )
    widest_prompt, widest_answer = max(len(row.prompt_tokens) for row in rows), max(row.max_new_tokens for row in rows)
    if len(rows) * widest_prompt + sum(len(row.candidates) for row in rows) * widest_answer <= max_tokens:
        return [list(rows)]
    batches: list[list[Row]] = []
    prompt = answer = 0
    for row in sorted(rows, key=lambda row: -row.num_tokens):
        prompt, answer = max(prompt, len(row.prompt_tokens)), max(answer, row.max_new_tokens)
        if not batches or 2 * row.num_tokens < batches[-1][0].num_tokens or prompt + answer > max_tokens:
            batches.append([])
            prompt, answer = len(row.prompt_tokens), row.max_new_tokens
        batches[-1].append(row)
    return batches
