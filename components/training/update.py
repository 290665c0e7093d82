"""One update: passes over a batch in minibatches, one optimizer step each, whatever the engine, ranks and micro-batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from components.algorithms.loss_statistics import means, mismatch_statistics, token_statistics
from components.algorithms.losses import LossInputs, token_mean_loss, truncated_importance_weights
from components.errors import LogprobMismatch, UpdateFailed
from components.schema import TrainBatch
from components.training.base import UpdateJob
from components.training.forward import logprobs_and_entropies
from components.training.minibatches import minibatches
from components.training.packing import MicroBatch
from components.training.rank_batches import RecordedLogprobs, rank_micro_batches, record_logprobs
from components.training.ranks import Ranks, scalar
from components.training.schedule import learning_rate

Engine = Any
"""A DeepSpeedEngine; DeepSpeed has no types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An update about to run on one rank. `reference` is a model or None."""

    engine: Engine
    job: UpdateJob
    batch: TrainBatch
    ranks: Ranks
    reference: torch.nn.Module | None

    def run(self) -> dict[str, float]:
        """Take all optimizer steps and return the metrics, equal on every rank and free of clock readings.

        An empty batch takes no step. Raises LogprobMismatch on every rank, before the first step, when the trainer's
        log-probabilities of the first minibatch are further from the sampler's than `loss.mismatch_tolerance`; UpdateFailed on
        every rank when a metric is not finite.
        """
        totals = _Totals()
        if not self.batch.num_tokens:
            return {"num_updates": 0.0, "num_tokens": 0.0}
        old, reference = self._recorded()
        if old is not None:
            self._measure_mismatch_of_batch(old, totals)
            self._check_mismatch(totals)
        training, job = self.job.training, self.job
        for epoch in range(training.num_epochs):
            parts = minibatches(
                len(self.batch.groups),
                num_minibatches=training.num_minibatches,
                seed=job.seed,
                seed_parts=(job.step, job.policy, epoch),
            )
            for number, indices in enumerate(parts):
                totals.learning_rate = self._learning_rate(epoch * training.num_minibatches + number)
                self._optimizer_step(indices, old, reference, totals)
        metrics = totals.metrics(self.ranks)
        broken = sorted(name for name, value in metrics.items() if not math.isfinite(value))
        if broken:
            raise UpdateFailed(f"policy {job.policy}, step {job.step}: {broken} are not finite; nothing was saved")
        return {**metrics, "num_tokens": float(self.batch.num_tokens)}

    def _recorded(self) -> tuple[RecordedLogprobs | None, RecordedLogprobs | None]:
        """The trainer's own log-probs from before the update and the reference's, where the loss needs them."""

        def record(model: torch.nn.Module) -> RecordedLogprobs:
            return record_logprobs(
                model,
                self.batch.groups,
                training=self.job.training,
                temperature=self.job.temperature,
                ranks=self.ranks,
            )

        old = record(self.engine) if self.job.loss.importance_cap is not None else None
        return old, record(self.reference) if self.reference is not None else None

    def _optimizer_step(
        self,
        indices: Sequence[int],
        old: RecordedLogprobs | None,
        reference: RecordedLogprobs | None,
        totals: "_Totals",
    ) -> None:
        groups = self.batch.groups
        num_tokens = sum(len(tokens) for index in indices for tokens in groups[index].completions_K_T)
        micro_batches = rank_micro_batches(groups, indices, self.job.training, self.ranks)
        for number, micro_batch in enumerate(micro_batches, start=1):
            self.engine.set_gradient_accumulation_boundary(number == len(micro_batches))
            inputs = loss_inputs(self.engine, micro_batch, self.job, old, reference)
            loss = token_mean_loss(inputs, self.job.loss, num_tokens=num_tokens)
            # DeepSpeed averages gradients over ranks; the loss is already divided by the tokens of all ranks.
            self.engine.backward(loss * self.ranks.size, scale_wrt_gas=False)
            totals.add(loss, token_statistics(inputs, self.job.loss), micro_batch.num_tokens)
            if totals.num_updates == 0 and old is None:
                sampler_N = torch.from_numpy(micro_batch.sampler_logprobs_N).to(loss.device)
                totals.add_mismatch(inputs.logprobs_N, sampler_N)
        if totals.num_updates == 0 and old is None:
            self._check_mismatch(totals)
        grad_norm = unclipped_grad_norm(self.engine)
        for parameters in self.engine.optimizer.param_groups:
            parameters["lr"] = totals.learning_rate
        self.engine.step()
        totals.grad_norm += grad_norm if grad_norm is not None else float(self.engine.get_global_grad_norm())
        totals.num_updates += 1

    def _measure_mismatch_of_batch(self, old: RecordedLogprobs, totals: "_Totals") -> None:
        # Every rank holds all recorded values, so one rank counts them.
        if self.ranks.first:
            sampler = [p for g in self.batch.groups for logprobs in g.sampler_logprobs_K_T for p in logprobs]
            totals.add_mismatch(old.values, torch.tensor(sampler, dtype=torch.float32, device=old.values.device))

    def _check_mismatch(self, totals: "_Totals") -> None:
        tolerance = self.job.loss.mismatch_tolerance
        largest = float(self.ranks.max(totals.mismatch_max_abs))
        if tolerance is not None and not largest <= tolerance:
            raise LogprobMismatch(
                f"policy {self.job.policy}, step {self.job.step}: the trainer's log-probabilities differ from the sampler's by "
                f"up to {largest:.3g}, loss.mismatch_tolerance is {tolerance:.3g}; the sampler held other weights, or rounds "
                "differently: raise the tolerance or set loss.importance_cap"
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


def loss_inputs(
    model: torch.nn.Module,
    micro_batch: MicroBatch,
    job: UpdateJob,
    old: RecordedLogprobs | None,
    reference: RecordedLogprobs | None,
) -> LossInputs:
    """The forward of `micro_batch`, and what its loss compares it with.

    With `old` the ratio is against the trainer's own log-probs and a weight corrects for the sampler's.
    """
    logprobs_N, entropies_N = logprobs_and_entropies(
        model, micro_batch, temperature=job.temperature, entropy_gradient=job.loss.entropy_coefficient > 0
    )
    sampler_N = torch.from_numpy(micro_batch.sampler_logprobs_N).to(logprobs_N.device)
    old_N, weights_N = sampler_N, None
    if old is not None:
        assert job.loss.importance_cap is not None, "old log-probs are recorded for importance sampling alone"
        old_N = old.of(micro_batch)
        weights_N = truncated_importance_weights(old_N, sampler_N, cap=job.loss.importance_cap)
    return LossInputs(
        logprobs_N=logprobs_N,
        old_logprobs_N=old_N,
        advantages_N=torch.from_numpy(micro_batch.advantages_N).to(logprobs_N.device),
        entropies_N=entropies_N,
        reference_logprobs_N=reference.of(micro_batch) if reference is not None else None,
        importance_weights_N=weights_N,
    )


def unclipped_grad_norm(engine: Engine) -> float | None:
    """The norm of the reduced gradient, or None where DeepSpeed's own optimizer reports it after its step.

    DeepSpeed reports none for plain float32 without ZeRO; there the gradients lie in the parameters.
    """
    if engine.zero_optimization() or engine.bfloat16_enabled():
        return None
    gradients = [p.grad for p in engine.module.parameters() if p.grad is not None]
    return float(torch.nn.utils.get_total_norm(gradients))


class _Totals:
    """Sums over the update's micro-batches on this rank."""

    def __init__(self) -> None:
        self.num_updates = 0
        self.learning_rate = 0.0
        self.grad_norm = 0.0
        self.mismatch_max_abs = scalar(0.0)
        self._mismatch_sum = scalar(0.0)
        self._num_mismatch_tokens = 0
        self._num_tokens = 0
        self._loss = scalar(0.0)
        self._sums: dict[str, Tensor] = {}

    def add(self, loss: Tensor, sums: dict[str, Tensor], num_tokens: int) -> None:
        self._loss += loss.detach().double().cpu()
        self._num_tokens += num_tokens
        for name, value in sums.items():
            self._sums[name] = self._sums.get(name, scalar(0.0)) + value.cpu()

    def add_mismatch(self, trainer_N: Tensor, sampler_N: Tensor) -> None:
        total, largest = mismatch_statistics(trainer_N, sampler_N)
        self._mismatch_sum += total.cpu()
        self.mismatch_max_abs = torch.maximum(self.mismatch_max_abs, largest.cpu())
        self._num_mismatch_tokens += trainer_N.numel()

    def metrics(self, ranks: Ranks) -> dict[str, float]:
        names = sorted(self._sums)
        counts = [scalar(self._num_tokens), scalar(self._num_mismatch_tokens)]
        parts = [self._loss, self._mismatch_sum, *counts, *(self._sums[name] for name in names)]
        loss, mismatch, num_tokens, num_mismatch_tokens, *sums = ranks.sum(torch.stack(parts)).tolist()
        return {
            **means(dict(zip(names, sums, strict=True)), int(num_tokens)),
            "loss": loss / self.num_updates,
            "grad_norm": self.grad_norm / self.num_updates,
            "learning_rate": self.learning_rate,
            "mismatch_kl": mismatch / max(num_mismatch_tokens, 1),
            "mismatch_max_abs": float(ranks.max(self.mismatch_max_abs)),
            "num_updates": float(self.num_updates),
        }
