"""A policy's critic within an update: its values from before the first step, advantages by them, and its loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean, pvariance

import torch
from torch import Tensor, nn

from components.algorithms.gae import Credited, gae_advantages
from components.algorithms.losses import MinibatchSize
from components.models.value_head import hidden_states, predict_values
from components.schema import TrainGroup
from components.training.base import CriticTerms, UpdateJob
from components.training.forward import completion_logprobs, device_of, predicting_cells
from components.training.packing import MicroBatch
from components.training.rank_batches import RecordedValues, record
from components.training.ranks import Ranks


def record_values(model: nn.Module, groups: Sequence[TrainGroup], job: UpdateJob, *, ranks: Ranks) -> RecordedValues:
    """What the critic expects at each token of `groups`, on every rank; that at a row's first token is of its prompt."""

    def values(micro_batch: MicroBatch) -> Tensor:
        with hidden_states(model) as hidden:
            completion_logprobs(model, micro_batch, temperature=job.temperature)
        cells_N = torch.from_numpy(predicting_cells(micro_batch)[1])
        return predict_values(model, job.policy, hidden[-1])[cells_N.to(hidden[-1].device)]

    return record(values, groups, training=job.training, ranks=ranks, device=device_of(model))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """Groups with advantages in place of returns, what the critic should have expected at each token's row, and metrics."""

    groups: tuple[TrainGroup, ...]
    targets: RecordedValues
    metrics: Mapping[str, float]


def judge(groups: Sequence[TrainGroup], values: RecordedValues, terms: CriticTerms) -> Judged:
    """The advantages of `groups`, whose rows are credited with returns, by the critic's values; targets are both together, and
    then advantages are weighed.

    Metrics are of the values before the update: the root of the mean squared error against returns, and the share of their
    variance that the values explain, 0 for returns that are all equal.
    """
    actions = [
        Credited(chain=(group.group.agent, episode), move=move, earned=earned)
        for group in groups
        for (episode, move), earned in zip(group.moves_K, group.advantages_K, strict=True)
    ]
    values_R = list(chain.from_iterable(values.of_rows(groups)))
    advantages_R = gae_advantages(actions, values_R, discount=terms.discount, trace=terms.trace)
    targets_R = [advantage + value for advantage, value in zip(advantages_R, values_R, strict=True)]
    of_rows = iter(terms.advantage_weight * advantage for advantage in advantages_R)
    judged = tuple(replace(group, advantages_K=tuple(next(of_rows) for _ in group.advantages_K)) for group in groups)
    lengths = [len(tokens) for group in groups for tokens in group.completions_K_T]
    repeated = torch.repeat_interleave(torch.tensor(targets_R, dtype=torch.float32), torch.tensor(lengths))
    errors = [action.earned - value for action, value in zip(actions, values_R, strict=True)]
    spread = pvariance([action.earned for action in actions])
    return Judged(
        groups=judged,
        targets=values.others(repeated.to(values.values.device)),
        metrics={
            "value_error": fmean(error**2 for error in errors) ** 0.5,
            "explained_variance": 1 - pvariance(errors) / spread if spread else 0.0,
        },
    )


def value_loss(
    model: nn.Module,
    hidden_C: Tensor,
    micro_batch: MicroBatch,
    targets: RecordedValues,
    job: UpdateJob,
    *,
    size: MinibatchSize,
) -> Tensor:
    """This micro-batch's part of the mean squared error over the answers of a minibatch, weighed by its coefficient.

    **Example** values 1 and 0 for targets 2 and 2, coefficient .5, as one of two micro-batches of 4 answers: .5 (1 + 4) / 4 =
    .625.
    """
    assert job.critic is not None, "a value loss without a critic"
    first_N = torch.from_numpy(micro_batch.offsets_N == 0).to(hidden_C.device)
    cells_N = torch.from_numpy(predicting_cells(micro_batch)[1]).to(hidden_C.device)
    errors_B = predict_values(model, job.policy, hidden_C[cells_N[first_N]]) - targets.of(micro_batch)[first_N]
    return job.critic.value_coefficient * errors_B.square().sum() / max(size.num_completions, 1)
