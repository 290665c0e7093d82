"""Packing: training groups as padded micro-batches in which sequences share one copy of what they begin with.

A row is a tree of token sequences, each a prompt and one of its completions, in their order: depth first. A token attends to
those before it on its own sequence alone, and positions are places in a sequence, so every completion sees what it would see
in a row of its own. Completions share their prompt, and groups share instructions and what was said before.
Axes: S rows, T columns, N completion tokens of a micro-batch in the order of its rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from components.errors import ConfigurationError
from components.schema import TrainGroup
from components.text.choice_tokens import list_allowed_tokens
from components.text.prefixes import common_length, read_tokens, token_order

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

PADDING = -1
"""Beyond the last of a token's allowed ones."""
_SHORT_COLUMNS = 512
_LEAST_SHARED = 1 / 3
"""The part of a group's prompt that it shares with another group, to be in one row with it."""
_LEAST_SPARED_COLUMNS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """The contents of one forward.

    A completion's last token is predicted but never fed, so a completion of n tokens takes n - 1 columns.

    **Example** prompt (5, 6), completions (7, 8), (9, 8) and (9,): tokens_S_T [[5, 6, 7, 9]], positions_S_T [[0, 1, 2, 2]],
    ends_S_T [[4, 4, 3, 4]]; targets_N (9, 7, 8, 9, 8) are predicted by the columns columns_N (1, 1, 2, 1, 3).
    """

    tokens_S_T: Ints
    positions_S_T: Ints
    ends_S_T: Ints
    """The column after the last one that goes on from this one; columns up to there attend to it."""
    rows_N: Ints
    """The row that holds the token."""
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
    """A prompt and one of its completions without the last token, by `token_order`."""

    key: bytes
    group: int
    candidate: int
    num_prompt_tokens: int
    length: int


@dataclass(frozen=True, slots=True)
class _Row:
    """Sequences in order, what each has in common with the one before, and the columns that they take."""

    sequences: list[_Sequence]
    shared: list[int]
    length: int


def pack_groups(groups: Sequence[TrainGroup], *, tokens_per_micro_batch: int, share_prompts: bool) -> list[MicroBatch]:
    """`groups` as micro-batches of at most `tokens_per_micro_batch` cells each, including padding, longest first.

    Groups that share a third of a prompt are in one row if it does not grow too long (`longest_row`); then it becomes several,
    as even as they can be, divided where they have least in common. Without `share_prompts` every completion is a row. Equal
    arguments give equal micro-batches. Raises ConfigurationError when one prompt with one completion does not fit.
    """
    sequences = _sequences(groups, tokens_per_micro_batch)
    if share_prompts:
        rows = [row for tree in _trees(sequences) for row in _even_rows(tree, tokens_per_micro_batch)]
    else:
        rows = [_Row([sequence], [0], sequence.length) for sequence in sequences]
    rows.sort(key=lambda row: (-row.length, row.sequences[0].group, row.sequences[0].candidate))
    batches = []
    start = 0
    for size in _batch_sizes([row.length for row in rows], tokens_per_micro_batch):
        batches.append(_micro_batch(groups, rows[start : start + size]))
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
        ends_S_T=cell + 1,
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
        episodes_K=None if group.episodes_K is None else tuple(group.episodes_K[k] for k in kept),
    )


def measure_packed_length(group: TrainGroup) -> int:
    """Columns that `group` takes alone when its completions share what they begin with."""
    sequences = _sequences([group], None)
    return sum(s.length for s in sequences) - sum(_in_common(sequences))


def longest_row(num_prompt_tokens: int, tokens_per_micro_batch: int) -> int:
    """The maximum number of columns of a row, including its prompt.

    Attention is quadratic in a row, and repeating a prompt is linear in it: at four prompt lengths, or 512 columns if that is
    more, both cost little compared with the completions.
    """
    return min(tokens_per_micro_batch, max(_SHORT_COLUMNS, 4 * num_prompt_tokens))


def _sequences(groups: Sequence[TrainGroup], budget: int | None) -> list[_Sequence]:
    """All sequences of `groups` in order. Raises ConfigurationError for one that does not fit `budget`."""
    sequences = []
    for index, group in enumerate(groups):
        assert group.prompt_tokens, f"group {group.group} has an empty prompt, which predicts nothing"
        prompt, num_prompt_tokens = token_order(group.prompt_tokens), len(group.prompt_tokens)
        for candidate, tokens in enumerate(group.completions_K_T):
            if not tokens:
                continue
            length = num_prompt_tokens + len(tokens) - 1
            sequence = _Sequence(prompt + token_order(tokens[:-1]), index, candidate, num_prompt_tokens, length)
            if budget is not None and sequence.length > budget:
                raise ConfigurationError(
                    f"training.tokens_per_micro_batch {budget}: group {group.group} has a prompt and completion of "
                    f"{sequence.length} tokens; raise it to at least that"
                )
            sequences.append(sequence)
    return sorted(sequences, key=lambda s: (s.key, s.group, s.candidate))


def _in_common(sequences: Sequence[_Sequence]) -> list[int]:
    """The tokens that each of the ordered sequences has in common with the one before, 0 for the first."""
    found = [common_length(before.key, after.key) for before, after in pairwise(sequences)]
    return [0, *found] if sequences else []


def _trees(sequences: list[_Sequence]) -> list[_Row]:
    """The ordered sequences, divided where too little of a prompt is shared to share a row."""
    shared = _in_common(sequences)
    starts = [
        place
        for place, sequence in enumerate(sequences)
        if place == 0 or shared[place] < _LEAST_SHARED * sequence.num_prompt_tokens
    ]
    return [_part(sequences, shared, start, end) for start, end in pairwise([*starts, len(sequences)])]


def _even_rows(tree: _Row, budget: int) -> list[_Row]:
    """A tree as rows within `longest_row`, then as even as they can be without more columns."""
    longest_sequence = max(sequence.length for sequence in tree.sequences)
    longest = longest_row(max(sequence.num_prompt_tokens for sequence in tree.sequences), budget)
    longest = max(longest, longest_sequence)
    if tree.length <= longest:
        return [tree]
    lengths = [sequence.length for sequence in tree.sequences]

    def num_columns(limit: int) -> int:
        return tree.length + sum(tree.shared[start] for start in _row_starts(lengths, tree.shared, limit))

    limit = _smallest(num_columns, low=longest_sequence, high=longest)
    bounds = [*_row_starts(lengths, tree.shared, limit), len(lengths)]
    return [_part(tree.sequences, tree.shared, start, end) for start, end in pairwise(bounds)]


def _row_starts(lengths: Sequence[int], shared: Sequence[int], limit: int) -> list[int]:
    """Where rows of at most `limit` columns begin: each where least is in common after a quarter of one."""
    starts = [0]
    length, place = lengths[0], 1
    cut: int | None = None
    while place < len(lengths):
        if 4 * length >= limit and (cut is None or shared[place] <= shared[cut]):
            cut = place
        added = lengths[place] - shared[place]
        if length + added <= limit:
            length, place = length + added, place + 1
            continue
        place = place if cut is None else cut
        starts.append(place)
        length, place, cut = lengths[place], place + 1, None
    return starts


def _part(sequences: list[_Sequence], shared: list[int], start: int, end: int) -> _Row:
    """The sequences from `start` to `end` as a row, which repeats what its first one shared."""
    mine, in_common = sequences[start:end], [0, *shared[start + 1 : end]]
    return _Row(mine, in_common, sum(s.length for s in mine) - sum(in_common))


def _smallest(number_at: Callable[[int], int], *, low: int, high: int) -> int:
    """The smallest limit that halving finds from `low` to `high` whose number is not above that at `high`."""
    fewest = number_at(high)
    while low < high:
        middle = (low + high) // 2
        if number_at(middle) <= fewest:
            high = middle
        else:
            low = middle + 1
    return high


def _batch_sizes(lengths: Sequence[int], budget: int) -> list[int]:
    """Sizes of consecutive batches of descending `lengths`: as few as fit `budget`, then as even as that many can be.

    A row that is a third and 128 columns shorter than the longest of a batch begins the next one, instead of being padded.
    """
    if not lengths:
        return []
    limit = _smallest(lambda most: len(_greedy_sizes(lengths, most)), low=lengths[0], high=budget)
    return _greedy_sizes(lengths, limit)


def _greedy_sizes(lengths: Sequence[int], budget: int) -> list[int]:
    sizes = []
    start = 0
    while start < len(lengths):
        longest = lengths[start]
        shortest = min(longest - _LEAST_SPARED_COLUMNS, longest * 2 // 3)
        most = min(budget // longest, len(lengths) - start)
        size = next((size for size in range(1, most) if lengths[start + size] <= shortest), most)
        sizes.append(size)
        start += size
    return sizes


def _micro_batch(groups: Sequence[TrainGroup], rows: Sequence[_Row]) -> MicroBatch:
    shape = (len(rows), max(row.length for row in rows))
    tokens, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    ends = np.tile(np.arange(1, shape[1] + 1), (len(rows), 1))
    flat: dict[str, list[npt.NDArray[np.generic]]] = {name: [] for name in _FLAT_NAMES}
    allowed_N: list[tuple[int, ...]] = []
    for number, row in enumerate(rows):
        path = np.zeros(0, np.int64)
        column = 0
        for sequence, shared in zip(row.sequences, row.shared, strict=True):
            ends[number, path[shared:]] = column
            path = np.concatenate((path[:shared], np.arange(column, column + sequence.length - shared)))
            column += sequence.length - shared
            tokens[number, path[shared:]] = read_tokens(sequence.key)[shared:]
            positions[number, path[shared:]] = np.arange(shared, sequence.length)
            group, candidate = groups[sequence.group], sequence.candidate
            completion = group.completions_K_T[candidate]
            drawn_among = list_allowed_tokens(group.choices, completion) if group.choices else ()
            allowed_N += drawn_among or [()] * len(completion)
            flat["columns_N"].append(path[sequence.num_prompt_tokens - 1 :])
            flat["targets_N"].append(np.asarray(completion, np.int64))
            flat["offsets_N"].append(np.arange(len(completion)))
            for name, value in (("rows_N", number), ("groups_N", sequence.group), ("candidates_N", candidate)):
                flat[name].append(np.full(len(completion), value, np.int64))
            flat["sampler_logprobs_N"].append(np.asarray(group.sampler_logprobs_K_T[candidate], np.float32))
            flat["advantages_N"].append(np.full(len(completion), group.advantages_K[candidate], np.float32))
        ends[number, path] = column
    joined = {name: np.concatenate(parts) for name, parts in flat.items()}
    temperatures_G = np.asarray([group.temperature or 0.0 for group in groups], np.float32)
    return MicroBatch(
        tokens_S_T=tokens,
        positions_S_T=positions,
        ends_S_T=ends,
        **joined,
        temperatures_N=temperatures_G[joined["groups_N"]] if temperatures_G.any() else None,
        allowed_N_A=_pad_rows(allowed_N) if any(allowed_N) else None,
    )


def _pad_rows(rows: Sequence[Sequence[int]]) -> Ints:
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
