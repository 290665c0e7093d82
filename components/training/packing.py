"""Packing: training groups as padded micro-batches in which a group's completions share one copy of their prompt.

A packed sequence is `[prompt | completion 1 | .. | completion K]`. A token attends only to the prompt and its own
completion, and positions restart after the prompt, so every completion sees what it would see in a sequence of its own.
Of answers by choice, which repeat, equal ones in a sequence share their columns, too.
Axes: S sequences, T columns, N completion tokens of a micro-batch in the order of its sequences.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from components.choice_tokens import allowed_tokens
from components.errors import ConfigurationError
from components.schema import TrainGroup

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

PADDING = -1
"""The segment of padding."""
PROMPT = 0
"""The segment of the prompt; completion k of a sequence has segment k + 1."""
_SHORT_COLUMNS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """The contents of one forward.

    A completion's last token is predicted but never fed, so a completion of n tokens takes n - 1 columns.

    **Example** prompt (5, 6), completions (7, 8) and (9,): tokens_S_T [[5, 6, 7]], positions_S_T [[0, 1, 2]], segments_S_T
    [[0, 0, 1]]; targets_N (7, 8, 9) are predicted by the columns columns_N (1, 2, 1).
    """

    tokens_S_T: Ints
    positions_S_T: Ints
    segments_S_T: Ints
    rows_N: Ints
    """The sequence that holds the token."""
    columns_N: Ints
    """The column whose logits predict the token."""
    targets_N: Ints
    """The token itself."""
    groups_N: Ints
    """The token's group, as an index into the groups that were packed."""
    candidates_N: Ints
    """The token's candidate, as an index into its group."""
    offsets_N: Ints
    """The token's position in its completion."""
    sampler_logprobs_N: Floats
    advantages_N: Floats
    temperatures_N: Floats | None = None
    """The temperature of the token's group, 0 for that of the update; None if no group has its own."""
    allowed_N_A: Ints | None = None
    """The tokens among which the token was drawn, `PADDING` beyond the last; a row of `PADDING`: among all. None: all were."""

    @property
    def num_tokens(self) -> int:
        """Completion tokens."""
        return len(self.targets_N)

    @property
    def completions_N(self) -> Ints:
        """The token's completion, numbered within the micro-batch. A completion is never split over micro-batches."""
        return np.cumsum(self.offsets_N == 0) - 1

    @property
    def lengths_N(self) -> Ints:
        """The length of the token's completion."""
        completions_N = self.completions_N
        return np.bincount(completions_N)[completions_N] if len(completions_N) else completions_N


@dataclass(frozen=True, slots=True)
class _Sequence:
    group: int
    candidates: tuple[int, ...]
    length: int


def pack_groups(groups: Sequence[TrainGroup], *, tokens_per_micro_batch: int, share_prompts: bool) -> list[MicroBatch]:
    """`groups` as micro-batches of at most `tokens_per_micro_batch` cells each, including padding, longest first.

    A group too long for one sequence (`longest_sequence`) becomes several that repeat its prompt; without `share_prompts`
    every completion is a sequence. Equal arguments give equal micro-batches. Raises ConfigurationError when one prompt with one
    completion does not fit.
    """
    sequences = [
        sequence
        for index, group in enumerate(groups)
        for sequence in _sequences(index, group, tokens_per_micro_batch, share_prompts)
    ]
    sequences.sort(key=lambda s: (-s.length, s.group, s.candidates))
    lengths = [sequence.length for sequence in sequences]
    batches = []
    start = 0
    for size in _batch_sizes(lengths, tokens_per_micro_batch):
        batches.append(_micro_batch(groups, sequences[start : start + size]))
        start += size
    return batches


def empty_micro_batch() -> MicroBatch:
    """A micro-batch without completion tokens, whose gradient is zero.

    Ranks with less work than others run these, because collectives wait for every rank.
    """
    cell = np.zeros((1, 1), np.int64)
    ints, floats = np.zeros(0, np.int64), np.zeros(0, np.float32)
    return MicroBatch(
        tokens_S_T=cell,
        positions_S_T=cell,
        segments_S_T=cell,
        rows_N=ints,
        columns_N=ints,
        targets_N=ints,
        groups_N=ints,
        candidates_N=ints,
        offsets_N=ints,
        sampler_logprobs_N=floats,
        advantages_N=floats,
    )


def without_truncated(groups: Sequence[TrainGroup]) -> tuple[TrainGroup, ...]:
    """`groups` without truncated completions, and without groups that become empty.

    Truncated completions count neither in the loss nor in its denominators, as in DAPO's overlong filtering (arXiv
    2503.14476, section 3.4) and TRL's token mean; TRL's other means count them in the denominator.

    **Example** advantages (1, -1, 0), the second truncated: advantages (1, 0).
    """
    kept = [_without_truncated(group) for group in groups]
    return tuple(group for group in kept if any(group.completions_K_T))


def _without_truncated(group: TrainGroup) -> TrainGroup:
    if not any(group.truncated_K):
        return group
    kept = [index for index, truncated in enumerate(group.truncated_K) if not truncated]
    return replace(
        group,
        completions_K_T=tuple(group.completions_K_T[k] for k in kept),
        sampler_logprobs_K_T=tuple(group.sampler_logprobs_K_T[k] for k in kept),
        advantages_K=tuple(group.advantages_K[k] for k in kept),
        truncated_K=(),
    )


def packed_length(group: TrainGroup) -> int:
    """Columns that `group` takes when its completions share one prompt."""
    different = set(group.completions_K_T) if group.choices else group.completions_K_T
    return len(group.prompt_tokens) + sum(max(len(tokens) - 1, 0) for tokens in different)


def longest_sequence(num_prompt_tokens: int, tokens_per_micro_batch: int) -> int:
    """The maximum number of columns of a sequence, including its prompt.

    Attention is quadratic in a sequence, and repeating a prompt is linear in it: at four prompt lengths, or 512 columns if
    that is more, both cost little compared with the completions.
    """
    return min(tokens_per_micro_batch, max(_SHORT_COLUMNS, 4 * num_prompt_tokens))


def _sequences(index: int, group: TrainGroup, budget: int, share_prompts: bool) -> Iterable[_Sequence]:
    prompt = len(group.prompt_tokens)
    assert prompt, f"group {group.group} has an empty prompt, which predicts nothing"
    longest = longest_sequence(prompt, budget)
    held: list[int] = []
    placed: set[tuple[int, ...]] = set()
    length = prompt
    for candidate, tokens in enumerate(group.completions_K_T):
        if not tokens:
            continue
        extra = len(tokens) - 1
        if prompt + extra > budget:
            raise ConfigurationError(
                f"training.tokens_per_micro_batch {budget}: group {group.group} has a prompt and completion of "
                f"{prompt + extra} tokens; raise it to at least that"
            )
        if share_prompts and tokens in placed:
            held.append(candidate)
            continue
        if held and (not share_prompts or length + extra > longest):
            yield _Sequence(index, tuple(held), length)
            held, placed, length = [], set(), prompt
        held.append(candidate)
        length += extra
        if group.choices:
            placed.add(tokens)
    if held:
        yield _Sequence(index, tuple(held), length)


def _batch_sizes(lengths: Sequence[int], budget: int) -> list[int]:
    """Sizes of consecutive batches of descending `lengths`: as few as fit `budget`, then as even as that many can be."""
    if not lengths:
        return []
    fewest = len(_greedy_sizes(lengths, budget))
    low, high = lengths[0], budget
    while low < high:
        middle = (low + high) // 2
        if len(_greedy_sizes(lengths, middle)) <= fewest:
            high = middle
        else:
            low = middle + 1
    return _greedy_sizes(lengths, high)


def _greedy_sizes(lengths: Sequence[int], budget: int) -> list[int]:
    sizes = []
    start = 0
    while start < len(lengths):
        size = min(budget // lengths[start], len(lengths) - start)
        sizes.append(size)
        start += size
    return sizes


def _micro_batch(groups: Sequence[TrainGroup], sequences: Sequence[_Sequence]) -> MicroBatch:
    shape = (len(sequences), max(sequence.length for sequence in sequences))
    tokens, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    segments = np.full(shape, PADDING, np.int64)
    flat: dict[str, list[npt.NDArray[np.generic]]] = {name: [] for name in _FLAT_NAMES}
    allowed_N: list[tuple[int, ...]] = []
    for row, sequence in enumerate(sequences):
        group = groups[sequence.group]
        prompt = len(group.prompt_tokens)
        tokens[row, :prompt] = group.prompt_tokens
        positions[row, :prompt] = np.arange(prompt)
        segments[row, :prompt] = PROMPT
        column = prompt
        starts: dict[tuple[int, ...], int] = {}
        for segment, candidate in enumerate(sequence.candidates, start=1):
            completion = np.asarray(group.completions_K_T[candidate], np.int64)
            start = starts.setdefault(group.completions_K_T[candidate], column) if group.choices else column
            drawn_among = allowed_tokens(group.choices, group.completions_K_T[candidate]) if group.choices else ()
            allowed_N += drawn_among or [()] * len(completion)
            end = start + len(completion) - 1
            tokens[row, start:end] = completion[:-1]
            positions[row, start:end] = np.arange(prompt, prompt + len(completion) - 1)
            segments[row, start:end] = segment
            flat["columns_N"].append(np.concatenate(([prompt - 1], np.arange(start, end))))
            flat["targets_N"].append(completion)
            flat["offsets_N"].append(np.arange(len(completion)))
            for name, value in (("rows_N", row), ("groups_N", sequence.group), ("candidates_N", candidate)):
                flat[name].append(np.full(len(completion), value, np.int64))
            flat["sampler_logprobs_N"].append(np.asarray(group.sampler_logprobs_K_T[candidate], np.float32))
            flat["advantages_N"].append(np.full(len(completion), group.advantages_K[candidate], np.float32))
            column = max(column, end)
    joined = {name: np.concatenate(parts) for name, parts in flat.items()}
    temperatures_G = np.asarray([group.temperature or 0.0 for group in groups], np.float32)
    return MicroBatch(
        tokens_S_T=tokens,
        positions_S_T=positions,
        segments_S_T=segments,
        **joined,
        temperatures_N=temperatures_G[joined["groups_N"]] if temperatures_G.any() else None,
        allowed_N_A=_padded(allowed_N) if any(allowed_N) else None,
    )


def _padded(rows: Sequence[Sequence[int]]) -> Ints:
    """The rows as an array, with `PADDING` beyond the end of each."""
    padded = np.full((len(rows), max(map(len, rows))), PADDING, np.int64)
    for row, values in enumerate(rows):
        padded[row, : len(values)] = values
    return padded


_FLAT_NAMES = (
    "rows_N",
    "columns_N",
    "targets_N",
    "groups_N",
    "candidates_N",
    "offsets_N",
    "sampler_logprobs_N",
    "advantages_N",
)
