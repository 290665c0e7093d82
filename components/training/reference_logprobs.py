"""The reference values of a batch's loss: computed before the first step, or within it if there is only one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from components.algorithms.importance import Correction, correction, correction_metrics
from components.algorithms.loss_inputs import LossInputs
from components.schema import TrainGroup
from components.training.base import UpdateJob
from components.training.forward import logprobs_and_entropies
from components.training.packing import Floats, Ints, MicroBatch
from components.training.rank_batches import RecordedValues, join_sampler_logprobs, record_logprobs
from components.training.ranks import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Values of all tokens of a batch from before the update; None if they are not needed, or computed within the only step.

    `old` and `sampler` are the log-probabilities of trainer and sampler; `weights`, `kept` and `metrics` belong to the
    correction for their difference; `row_weights` are what each token counts, None if all count the same.
    """

    old: RecordedValues | None = None
    sampler: RecordedValues | None = None
    weights: RecordedValues | None = None
    kept: RecordedValues | None = None
    reference: RecordedValues | None = None
    row_weights: RecordedValues | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


def record_batch(
    model: nn.Module, groups: Sequence[TrainGroup], job: UpdateJob, *, ranks: Ranks, reference: nn.Module | None
) -> Recorded:
    """The values that `job.loss` needs, equal on every rank, from forwards without gradients."""
    recorded = record_reference(groups, job, ranks=ranks, reference=reference)
    if job.loss.importance_cap is None:
        return recorded
    old = record_logprobs(model, groups, training=job.training, temperature=job.temperature, ranks=ranks)
    sampler_N, lengths_B = join_sampler_logprobs(groups)
    sampler = old.others(sampler_N.to(old.values.device))
    corrected = correction(old.values, sampler.values, lengths_B, job.loss)
    return replace(
        recorded,
        old=old,
        sampler=sampler,
        weights=old.others(corrected.weights_N),
        kept=old.others(corrected.kept_N) if job.loss.importance_veto is not None else None,
        metrics=correction_metrics({name: float(value) for name, value in corrected.sums.items()}),
    )


def record_reference(
    groups: Sequence[TrainGroup], job: UpdateJob, *, ranks: Ranks, reference: nn.Module | None
) -> Recorded:
    """The values of the reference model alone, if there is one."""
    if reference is None:
        return Recorded()
    return Recorded(
        reference=record_logprobs(reference, groups, training=job.training, temperature=job.temperature, ranks=ranks)
    )


def loss_inputs(model: torch.nn.Module, micro_batch: MicroBatch, job: UpdateJob, recorded: Recorded) -> LossInputs:
    """The inputs of the loss of `micro_batch`, from one forward.

    With `recorded.old` the ratio is against the trainer's log-probabilities, and a weight corrects for the sampler's.
    """
    logprobs_N, entropies_N = logprobs_and_entropies(
        model, micro_batch, temperature=job.temperature, entropy_gradient=job.loss.entropy_coefficient > 0
    )

    def of(values: RecordedValues | None) -> Tensor | None:
        return values.of(micro_batch) if values is not None else None

    def on_device(array: Ints | Floats) -> Tensor:
        return torch.from_numpy(array).to(logprobs_N.device)

    old_N = of(recorded.old)
    return LossInputs(
        logprobs_N=logprobs_N,
        old_logprobs_N=on_device(micro_batch.sampler_logprobs_N) if old_N is None else old_N,
        advantages_N=on_device(micro_batch.advantages_N),
        completions_N=on_device(micro_batch.completions_N),
        lengths_N=on_device(micro_batch.lengths_N),
        entropies_N=entropies_N,
        reference_logprobs_N=of(recorded.reference),
        importance_weights_N=of(recorded.weights),
        kept_N=of(recorded.kept),
        row_weights_N=of(recorded.row_weights),
    )


def correct_here(inputs: LossInputs, micro_batch: MicroBatch, job: UpdateJob) -> tuple[LossInputs, Correction]:
    """`inputs`, whose old log-probabilities are the sampler's, corrected by their own; and the correction.

    It is what `record_batch` gives before the first step: until then the weights are those from before the update, so an
    update of one step needs no other forward. A micro-batch has all tokens of its completions, one completion after the other.
    """
    trainer_N = inputs.logprobs_N.detach()
    found = correction(trainer_N, inputs.old_logprobs_N, np.bincount(micro_batch.completions_N).tolist(), job.loss)
    kept_N = found.kept_N if job.loss.importance_veto is not None else None
    corrected = replace(inputs, old_logprobs_N=trainer_N, importance_weights_N=found.weights_N, kept_N=kept_N)
    return corrected, found
