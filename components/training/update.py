"""One update: epochs over a batch in minibatches, with one optimizer step each."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from components.algorithms.importance import correction_metrics
from components.algorithms.loss_statistics import means, mismatch_statistics, token_statistics
from components.algorithms.losses import minibatch_loss
from components.algorithms.proximal import proximal_term
from components.errors import LogprobMismatch, UpdateFailed
from components.models.stored_models import EXACT_BASES
from components.models.value_head import hidden_states, is_value_head
from components.reporting.progress_share import report_share, subtask
from components.schema import TrainBatch
from components.training.base import CriticTerms, UpdateJob
from components.training.critic import judge, record_values, value_loss
from components.training.forward import device_of
from components.training.gradient_share import GradientShares
from components.training.learning_rate import learning_rate
from components.training.minibatches import minibatches_of
from components.training.packing import without_truncated
from components.training.rank_batches import RecordedValues, count_size, rank_micro_batches, weigh_episodes
from components.training.ranks import Ranks, scalar
from components.training.reference_logprobs import Recorded, correct_here, loss_inputs, record_batch, record_reference

_MOST_ROUNDING = 2.0
"""The largest difference of log-probabilities, in nats, that rounding in bfloat16 may explain."""
_RECORDING_SHARE = 0.2
"""The part of an update's work, roughly, that forwards without gradients before its steps are, for the progress bar."""
Learner = Any
"""A DeepSpeedEngine; DeepSpeed has no types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One rank's part of an update. `reference` is a model or None."""

    learner: Learner
    job: UpdateJob
    batch: TrainBatch
    ranks: Ranks
    reference: torch.nn.Module | None
    targets: RecordedValues | None = None
    """What the critic should have expected at each row; None without one."""
    anchor: Mapping[str, Tensor] = field(default_factory=dict)
    """The trained weights from before the update, where they are pulled back to; else empty."""

    def run(self) -> dict[str, float]:
        """Take all optimizer steps; returns metrics that are equal on every rank and contain no time measurements.

        With a critic the batch's returns first become advantages. An empty batch takes no step. Raises LogprobMismatch on
        every rank, before the first step, when the log-probabilities of trainer and sampler differ in the first minibatch by
        more than `loss.mismatch_tolerance`, unless the sampler held the weights of the previous step; UpdateFailed on every
        rank when a metric is not finite.
        """
        if self.job.proximal and not self.anchor:
            before = {name: weight.detach().clone() for name, weight in self._list_trained_weights()}
            return replace(self, anchor=before).run()
        if self.job.critic is not None and self.batch.num_tokens:
            return self._with_critic(self.job.critic)
        if not self.job.loss.mask_truncated:
            return self._run()
        groups = without_truncated(self.batch.groups)
        counts = [sum(len(group.completions_K_T) for group in some) for some in (groups, self.batch.groups)]
        masked_fraction = 1.0 - counts[0] / max(counts[1], 1)
        return {**replace(self, batch=replace(self.batch, groups=groups))._run(), "masked_frac": masked_fraction}

    def _with_critic(self, terms: CriticTerms) -> dict[str, float]:
        with subtask(0.0, _RECORDING_SHARE):
            values = record_values(self.learner.module, self.batch.groups, self.job, ranks=self.ranks)
        judged = judge(self.batch.groups, values, terms)
        update = replace(self, batch=replace(self.batch, groups=judged.groups), targets=judged.targets)
        with subtask(_RECORDING_SHARE, 1.0):
            return {**update._run(), **judged.metrics}

    def _run(self) -> dict[str, float]:
        totals = _Totals(GradientShares(self.batch))
        counts = counts_of(self.batch)
        if not self.batch.num_tokens:
            return {"num_updates": 0.0, **counts}
        counts["sampler_lag"] = float(self._sampler_lag())
        training, job = self.job.training, self.job
        with subtask(0.0, _RECORDING_SHARE):
            recorded = self._record()
        if job.loss.average_over == "session":
            counts_each = weigh_episodes(self.batch, job.loss, device=device_of(self.learner.module))
            recorded = replace(recorded, row_weights=counts_each)
        began = _RECORDING_SHARE if recorded.old is not None or recorded.reference is not None else 0.0
        if recorded.old is not None:
            self._measure_mismatch_of_batch(recorded, totals)
            self._check_mismatch(totals)
        share = (1 - began) / (training.num_epochs * training.num_minibatches)
        for epoch in range(training.num_epochs):
            parts = minibatches_of(
                self.batch.groups,
                num_minibatches=training.num_minibatches,
                seed=job.seed,
                seed_parts=(job.step, job.policy, epoch),
            )
            for number, indices in enumerate(parts, start=epoch * training.num_minibatches):
                totals.learning_rate = self._learning_rate(number)
                with subtask(began + share * number, began + share * (number + 1)):
                    self._optimizer_step(indices, recorded, totals)
        metrics = {**recorded.metrics, **totals.metrics(self.ranks), **counts}
        broken = sorted(name for name, value in metrics.items() if not math.isfinite(value))
        if broken:
            raise UpdateFailed(f"policy {job.policy}, step {job.step}: {broken} are not finite; nothing was saved")
        return metrics

    def _list_trained_weights(self) -> list[tuple[str, Tensor]]:
        return [
            (name, weight)
            for name, weight in self.learner.module.named_parameters()
            if weight.requires_grad and not is_value_head(name)
        ]

    @property
    def _has_one_step(self) -> bool:
        return self.job.training.num_epochs * self.job.training.num_minibatches == 1

    def _record(self) -> Recorded:
        groups, job = self.batch.groups, self.job
        if self._has_one_step:
            return record_reference(groups, job, ranks=self.ranks, reference=self.reference)
        return record_batch(self.learner, groups, job, ranks=self.ranks, reference=self.reference)

    def _measure_mismatch_of_batch(self, recorded: Recorded, totals: "_Totals") -> None:
        # Every rank holds all recorded values, so one rank counts them.
        if recorded.old is not None and recorded.sampler is not None and self.ranks.first:
            totals.add_mismatch(recorded.old.values, recorded.sampler.values)

    def _optimizer_step(self, indices: Sequence[int], recorded: Recorded, totals: "_Totals") -> None:
        groups, loss_config = self.batch.groups, self.job.loss
        size = count_size(self.batch, indices, loss_config)
        micro_batches = rank_micro_batches(groups, indices, self.job.training, self.ranks)
        for number, micro_batch in enumerate(micro_batches, start=1):
            self.learner.set_gradient_accumulation_boundary(number == len(micro_batches))
            judged: AbstractContextManager[list[Tensor]] = nullcontext([])
            if self.targets is not None:
                judged = hidden_states(self.learner.module)
            with judged as hidden:
                inputs = loss_inputs(self.learner, micro_batch, self.job, recorded)
            if loss_config.importance_cap is not None and recorded.old is None:
                inputs, corrected = correct_here(inputs, micro_batch, self.job)
                totals.add_correction(corrected.sums)
            loss = minibatch_loss(inputs, loss_config, size=size)
            if self.targets is not None:
                loss = loss + value_loss(
                    self.learner.module, hidden[-1], micro_batch, self.targets, self.job, size=size
                )
            totals.shares.watch(inputs.logprobs_N)
            if self.anchor and number == len(micro_batches):  # once a step; each rank adds its part
                weights = dict(self._list_trained_weights())
                loss = loss + proximal_term(weights, self.anchor, self.job.proximal) / self.ranks.size
            # DeepSpeed averages gradients over ranks; the loss is already divided by the tokens of all ranks.
            self.learner.backward(loss * self.ranks.size, scale_wrt_gas=False)
            totals.add(loss, token_statistics(inputs, loss_config), micro_batch.num_tokens)
            totals.shares.add(inputs.logprobs_N, micro_batch.groups_N)
            report_share(number / len(micro_batches))
            if totals.num_updates == 0 and recorded.old is None:
                sampler_N = torch.from_numpy(micro_batch.sampler_logprobs_N).to(loss.device)
                totals.add_mismatch(inputs.logprobs_N, sampler_N)
        if totals.num_updates == 0 and recorded.old is None:
            self._check_mismatch(totals)
        grad_norm = read_unclipped_grad_norm(self.learner)
        for parameters in self.learner.optimizer.param_groups:
            parameters["lr"] = totals.learning_rate
        self.learner.step()
        totals.grad_norm += grad_norm if grad_norm is not None else float(self.learner.get_global_grad_norm())
        totals.num_updates += 1

    def _sampler_lag(self) -> int:
        """How many updates old the sampler's weights were: 0, or 1 under overlap; 0 if unknown.

        In a population they may be of any earlier step, if the policy has not learned since.
        """
        version, job = self.batch.version, self.job
        if version is None or version.weights_digest == job.weights_digest:
            return 0
        lag = job.step - version.step
        assert lag in (0, 1), f"policy {job.policy}, step {job.step}: sampled by the weights of step {version.step}"
        assert lag, (
            f"policy {job.policy}, step {job.step}: sampled by {version.weights_digest}, the update starts from "
            f"{job.weights_digest}"
        )
        assert job.loss.importance_cap is not None, (
            f"policy {job.policy}, step {job.step}: sampled by the weights of step {version.step}, without a correction"
        )
        return lag

    def _check_mismatch(self, totals: "_Totals") -> None:
        tolerance = None if self._sampler_lag() else self.job.loss.mismatch_tolerance
        largest = float(self.ranks.max(totals.mismatch_max_abs))
        if tolerance is not None and not largest <= tolerance:
            raise LogprobMismatch(
                f"policy {self.job.policy}, step {self.job.step}: the trainer's log-probabilities differ from the sampler's by "
                f"up to {largest:.3g}, loss.mismatch_tolerance is {tolerance:.3g}; {_cause_of_mismatch(largest)}"
            )

    def _learning_rate(self, number: int) -> float:
        training = self.job.training
        updates_per_step = training.num_epochs * training.num_minibatches
        return learning_rate(
            self.job.step * updates_per_step + number,
            peak=training.learning_rate,
            num_warmup_updates=training.num_warmup_updates,
            total_updates=self.job.total_steps * updates_per_step,
            schedule=training.lr_schedule,
        )


def counts_of(batch: TrainBatch) -> dict[str, float]:
    """The tokens and rows of a batch, and those of its rows whose advantage is not 0."""
    advantages = [
        advantage
        for group in batch.groups
        for advantage, tokens in zip(group.advantages_K, group.completions_K_T, strict=True)
        if tokens
    ]
    return {
        "num_tokens": float(batch.num_tokens),
        "num_rows": float(len(advantages)),
        "num_rows_with_signal": float(sum(advantage != 0.0 for advantage in advantages)),
    }


def _cause_of_mismatch(largest: float) -> str:
    if largest <= _MOST_ROUNDING:
        return (
            "the sampler held other weights, or rounds differently (bfloat16, another engine or device): only then raise the "
            "tolerance, and set loss.importance_cap to correct for it"
        )
    return (
        "no rounding explains that: the sampler held other weights, or it and the trainer compute this model differently, "
        f"and a higher tolerance would only hide it; if the weights are right, {EXACT_BASES}"
    )


def read_unclipped_grad_norm(learner: Learner) -> float | None:
    """The norm of the reduced gradient; None if DeepSpeed reports it after the step.

    It does not for plain float32 without ZeRO, where the gradients are in the parameters.
    """
    if learner.zero_optimization() or learner.bfloat16_enabled():
        return None
    gradients = [p.grad for p in learner.module.parameters() if p.grad is not None]
    return float(torch.nn.utils.get_total_norm(gradients))


class _Totals:
    """Sums over the update's micro-batches on this rank, and their token counts."""

    def __init__(self, shares: GradientShares) -> None:
        self.shares = shares
        self.num_updates = 0
        self.learning_rate = 0.0
        self.grad_norm = 0.0
        self.mismatch_max_abs = scalar(0.0)
        self._loss = scalar(0.0)
        self._terms: dict[str, Tensor] = {}
        self._mismatch = {"mismatch_kl": scalar(0.0), "mismatch_factor": scalar(0.0)}
        self._correction: dict[str, Tensor] = {}
        self._num_tokens = self._num_mismatch_tokens = 0

    def add(self, loss: Tensor, sums: dict[str, Tensor], num_tokens: int) -> None:
        self._loss += loss.detach().double().cpu()
        self._num_tokens += num_tokens
        for name, value in sums.items():
            self._terms[name] = self._terms.get(name, scalar(0.0)) + value.cpu()

    def add_mismatch(self, trainer_N: Tensor, sampler_N: Tensor) -> None:
        sums, largest = mismatch_statistics(trainer_N, sampler_N)
        self._num_mismatch_tokens += trainer_N.numel()
        self.mismatch_max_abs = torch.maximum(self.mismatch_max_abs, largest.cpu())
        for name, value in sums.items():
            self._mismatch[name] += value.cpu()

    def add_correction(self, sums: Mapping[str, Tensor]) -> None:
        for name, value in sums.items():
            self._correction[name] = self._correction.get(name, scalar(0.0)) + value.cpu()

    def metrics(self, ranks: Ranks) -> dict[str, float]:
        counts = {"tokens": scalar(self._num_tokens), "mismatch tokens": scalar(self._num_mismatch_tokens)}
        parts = {"loss": self._loss, **counts, **self._mismatch, **dict(sorted(self._terms.items()))}
        whole = dict(zip(parts, ranks.sum(torch.stack(list(parts.values()))).tolist(), strict=True))
        return {
            **self._correction_metrics(ranks),
            **means({name: whole[name] for name in sorted(self._terms)}, int(whole["tokens"])),
            **means({name: whole[name] for name in self._mismatch}, int(whole["mismatch tokens"])),
            **self.shares.metrics(ranks),
            "loss": whole["loss"] / self.num_updates,
            "grad_norm": self.grad_norm / self.num_updates,
            "learning_rate": self.learning_rate,
            "mismatch_max_abs": float(ranks.max(self.mismatch_max_abs)),
            "num_updates": float(self.num_updates),
        }

    def _correction_metrics(self, ranks: Ranks) -> dict[str, float]:
        if not self._correction:
            return {}
        sums = ranks.sum(torch.stack(list(self._correction.values()))).tolist()
        return correction_metrics(dict(zip(self._correction, sums, strict=True)))
