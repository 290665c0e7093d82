"""Ranks with less work run empty micro-batches: these weigh nothing, in the loss, its gradient and every statistic."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.loss_statistics import token_statistics
from components.algorithms.losses import minibatch_loss
from components.config import LossConfig, TrainingConfig
from components.training.packing import MicroBatch, empty_micro_batch
from components.training.rank_batches import minibatch_size, rank_micro_batches
from components.training.ranks import Ranks
from components.training.reference_logprobs import loss_inputs, record_batch
from tests.sections import choose_loss

LOSSES = [
    choose_loss(entropy_coefficient=0.1, kl_coefficient=0.1),
    choose_loss(aggregation="sequence_mean", importance_cap=1.5, importance_level="sequence", importance_veto=0.7),
    choose_loss(policy_loss="gspo", clip_low=0.05, clip_high=0.1),
    choose_loss(policy_loss="cispo", clip_low=1.0, clip_high=0.2),
]


@dataclass(frozen=True, slots=True)
class Agreeing(Ranks):
    """One of several simulated ranks, which knows what the others would say."""

    largest: float = 0.0

    def max(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clamp(min=self.largest)


def _of_all_ranks(groups: list[Any], training: TrainingConfig, num_ranks: int) -> list[list[MicroBatch]]:
    def of_rank(rank: int, largest: float) -> list[MicroBatch]:
        return rank_micro_batches(groups, range(len(groups)), training, Agreeing(rank, num_ranks, None, largest))

    largest = max(len(of_rank(rank, 0.0)) for rank in range(num_ranks))
    return [of_rank(rank, largest) for rank in range(num_ranks)]


def _sum(model: Any, groups: list[Any], batches: list[MicroBatch], job: Any, reference: Any) -> Any:
    """The loss, the gradient and the statistics of `batches`, as a minibatch of `groups`."""
    model.zero_grad()
    recorded = record_batch(model, groups, job, ranks=Ranks(), reference=reference)
    loss, statistics = torch.zeros(()), {}
    for batch in batches:
        inputs = loss_inputs(model, batch, job, recorded)
        loss = loss + minibatch_loss(inputs, job.loss, size=minibatch_size(groups))
        for name, value in token_statistics(inputs, job.loss).items():
            statistics[name] = statistics.get(name, 0.0) + float(value)
    loss.backward()
    return loss.item(), torch.cat([p.grad.reshape(-1) for p in model.parameters()]), statistics


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.policy_loss}-{loss.aggregation}")
def test_more_ranks_than_groups_add_nothing(
    make_model: Callable[..., Any],
    make_groups: Callable[..., list[Any]],
    score_groups: Callable[..., list[Any]],
    make_job: Callable[..., Any],
    loss: LossConfig,
) -> None:
    model = make_model()
    reference = make_model(seed=1) if loss.kl_coefficient else None
    everything = score_groups(model, make_groups(3), noise=0.3)
    job = make_job(loss=loss, training=TrainingConfig(tokens_per_micro_batch=64))

    @settings(deadline=None, max_examples=4)
    @given(num_groups=st.integers(1, 3), num_ranks=st.integers(2, 5))
    def spread(num_groups: int, num_ranks: int) -> None:
        groups = everything[:num_groups]
        shares = _of_all_ranks(groups, job.training, num_ranks)
        assert len({len(share) for share in shares}) == 1
        batches = [batch for share in shares for batch in share]
        if num_ranks > num_groups:
            assert any(all(not batch.num_tokens for batch in share) for share in shares)
        held = {pair for b in batches for pair in zip(b.groups_N.tolist(), b.candidates_N.tolist(), strict=True)}
        assert held == {(g, k) for g in range(num_groups) for k in range(4)}
        assert sum(batch.num_tokens for batch in batches) == minibatch_size(groups).num_tokens
        wanted = _sum(
            model, groups, rank_micro_batches(groups, range(num_groups), job.training, Ranks()), job, reference
        )
        found = _sum(model, groups, batches, job, reference)
        assert found[0] == pytest.approx(wanted[0], abs=1e-6, rel=1e-5)
        assert (found[1] - wanted[1]).norm() < 1e-5 * wanted[1].norm()
        assert found[2] == pytest.approx(wanted[2], rel=1e-6, abs=1e-6)

    spread()
    nothing, gradient, statistics = _sum(model, everything, [empty_micro_batch()], job, reference)
    assert nothing == 0.0
    assert not gradient.any()
    assert statistics
    assert not any(statistics.values())
