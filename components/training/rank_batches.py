"""One rank's micro-batches of a minibatch, and log-probabilities recorded once for a whole batch."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from components.algorithms.losses import MinibatchSize
from components.config import LossConfig, TrainingConfig
from components.reporting.progress_share import report_share
from components.schema import TrainBatch, TrainGroup
from components.training.forward import completion_logprobs, device_of
from components.training.minibatches import balance_costs
from components.training.packing import Ints, MicroBatch, empty_micro_batch, measure_packed_length, pack_groups
from components.training.ranks import Ranks, scalar


def minibatch_size(groups: Sequence[TrainGroup]) -> MinibatchSize:
    """The size of one minibatch over all ranks."""
    return _size(len(tokens) for group in groups for tokens in group.completions_K_T)


def count_size(batch: TrainBatch, indices: Sequence[int], loss: LossConfig) -> MinibatchSize:
    """The size that the loss of the minibatch at `indices` divides by.

    Answers of groups without a signal are in no minibatch; they count as if spread evenly over the batch's answers, except
    those that `mask_truncated` excludes, and except under `average_over` nonzero.

    **Example** 6 of 24 answers of 2 tokens, and 8 answers of 3 tokens without a signal: 6 + 2 answers, 12 + 6 tokens.
    """
    size = minibatch_size([batch.groups[index] for index in indices])
    if loss.average_over == "nonzero":
        return size
    answers = zip(batch.lengths_without_signal, batch.truncated_without_signal, strict=True)
    silent = _size(length for length, truncated in answers if not (truncated and loss.mask_truncated))
    share = size.num_completions / max(minibatch_size(batch.groups).num_completions, 1)
    return MinibatchSize(
        num_completions=size.num_completions + round(share * silent.num_completions),
        num_tokens=size.num_tokens + round(share * silent.num_tokens),
    )


def _size(lengths: Iterable[int]) -> MinibatchSize:
    counted = [length for length in lengths if length]
    return MinibatchSize(num_completions=len(counted), num_tokens=sum(counted))


def rank_micro_batches(
    groups: Sequence[TrainGroup], indices: Sequence[int], training: TrainingConfig, ranks: Ranks
) -> list[MicroBatch]:
    """This rank's share of the groups at `indices`, in the same number of micro-batches on every rank.

    Shares are balanced by packed tokens and padded with empty micro-batches. `groups_N` are indices into `groups`.
    """
    share = list(indices)
    if ranks.size > 1:
        costs = [measure_packed_length(groups[index]) for index in indices]
        share = [indices[place] for place in balance_costs(costs, ranks.size)[ranks.rank]]
    packed = pack_groups(
        [groups[index] for index in share],
        tokens_per_micro_batch=training.tokens_per_micro_batch,
        share_prompts=training.share_prompts,
    )
    numbered = [replace(batch, groups_N=np.asarray(share, np.int64)[batch.groups_N]) for batch in packed]
    num_micro_batches = int(ranks.max(scalar(len(numbered))).item())
    return numbered + [empty_micro_batch()] * (num_micro_batches - len(numbered))


@dataclass(frozen=True, slots=True)
class RecordedValues:
    """One value per completion token of a batch, which any micro-batch of it can look up."""

    values: Tensor
    starts_G_K: Ints

    def of(self, micro_batch: MicroBatch) -> Tensor:
        """The recorded values (N,) of the tokens of `micro_batch`."""
        places_N = self.starts_G_K[micro_batch.groups_N, micro_batch.candidates_N] + micro_batch.offsets_N
        return self.values[torch.from_numpy(places_N).to(self.values.device)]

    def of_rows(self, groups: Sequence[TrainGroup]) -> list[list[float]]:
        """The values at the first token of each row [G, K] of `groups`, which were recorded; none of them is empty."""
        values = self.values.tolist()
        return [
            [values[self.starts_G_K[g, k]] for k in range(len(group.completions_K_T))] for g, group in enumerate(groups)
        ]

    def others(self, values: Tensor) -> "RecordedValues":
        """Other values for the same tokens, in the same order."""
        assert values.shape == self.values.shape, f"{values.shape} values for {self.values.shape} tokens"
        return RecordedValues(values, self.starts_G_K)


def weigh_episodes(batch: TrainBatch, loss: LossConfig, *, device: torch.device) -> RecordedValues:
    """What each token counts, so that all episodes count the same in a loss over the whole batch.

    Within an episode the aggregation counts: tokens, or answers under sequence_mean. Answers without a signal are counted as by
    `count_size`.

    **Example** token_mean, an episode with an answer of 6 tokens and one with two of 1: weights 8 / (2 * 6) and 8 / (2 * 2).
    """
    silent = zip(
        batch.episodes_without_signal or (), batch.lengths_without_signal, batch.truncated_without_signal, strict=True
    )
    rows = [
        (episode, len(tokens))
        for group in batch.groups
        for episode, tokens in zip(group.episodes_K or (), group.completions_K_T, strict=True)
    ]
    sizes = Counter[int]()
    for episode, length in [*rows, *((e, n) for e, n, truncated in silent if not (truncated and loss.mask_truncated))]:
        sizes[episode] += min(length, 1) if loss.aggregation == "sequence_mean" else length
    share = sizes.total() / max(sum(size > 0 for size in sizes.values()), 1)
    weights = [share / sizes[episode] for episode, length in rows for _ in range(length)]
    return RecordedValues(torch.tensor(weights, dtype=torch.float32, device=device), _starts(batch.groups)[0])


def record_logprobs(
    model: nn.Module, groups: Sequence[TrainGroup], *, training: TrainingConfig, temperature: float, ranks: Ranks
) -> RecordedValues:
    """The current log-probabilities under `model` of all completion tokens of `groups`, on every rank."""

    def logprobs(micro_batch: MicroBatch) -> Tensor:
        return completion_logprobs(model, micro_batch, temperature=temperature)

    return record(logprobs, groups, training=training, ranks=ranks, device=device_of(model))


def record(
    values_of: Callable[[MicroBatch], Tensor],
    groups: Sequence[TrainGroup],
    *,
    training: TrainingConfig,
    ranks: Ranks,
    device: torch.device,
) -> RecordedValues:
    """What `values_of` gives for the tokens (N,) of each micro-batch, for all of `groups`, on every rank."""
    starts_G_K, num_tokens = _starts(groups)
    values = torch.zeros(num_tokens, dtype=torch.float32)
    with torch.no_grad():
        micro_batches = rank_micro_batches(groups, range(len(groups)), training, ranks)
        for number, micro_batch in enumerate(micro_batches, start=1):
            places_N = starts_G_K[micro_batch.groups_N, micro_batch.candidates_N] + micro_batch.offsets_N
            values[torch.from_numpy(places_N)] = values_of(micro_batch).to("cpu")
            report_share(number / len(micro_batches))
    return RecordedValues(ranks.sum(values).to(device), starts_G_K)


def join_sampler_logprobs(groups: Sequence[TrainGroup]) -> tuple[Tensor, list[int]]:
    """The sampler's log-probabilities in the order of recorded values, float32, and the lengths of the completions."""
    completions = [logprobs_T for group in groups for logprobs_T in group.sampler_logprobs_K_T]
    flat = torch.tensor([p for logprobs_T in completions for p in logprobs_T], dtype=torch.float32)
    return flat, [len(logprobs_T) for logprobs_T in completions if logprobs_T]


def _starts(groups: Sequence[TrainGroup]) -> tuple[Ints, int]:
    """The offset of each candidate's tokens when all completions are concatenated, and the total number of tokens."""
    lengths = [[len(tokens) for tokens in group.completions_K_T] for group in groups]
    widest = max(map(len, lengths), default=0)
    lengths_G_K = np.array([row + [0] * (widest - len(row)) for row in lengths], np.int64).reshape(len(groups), widest)
    return lengths_G_K.cumsum().reshape(lengths_G_K.shape) - lengths_G_K, int(lengths_G_K.sum())
