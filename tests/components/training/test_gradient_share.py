"""Each agent's share of the gradient, against autograd through forwards of single answers."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.loss_inputs import LossInputs
from components.algorithms.losses import minibatch_loss
from components.config import LossConfig, TrainingConfig
from components.schema import TrainBatch
from components.training.gradient_share import GradientShares
from components.training.rank_batches import minibatch_size, rank_micro_batches
from components.training.ranks import Ranks
from components.training.reference_logprobs import loss_inputs, record_batch
from components.training.update import Update
from tests.components.training.test_rank_padding import Agreeing
from tests.components.training.test_update import PlainLearner
from tests.sections import choose_loss

LOSSES = [
    choose_loss(),
    choose_loss(aggregation="sequence_mean", entropy_coefficient=0.1),
    choose_loss(aggregation="fixed_length", fixed_length=9, kl_coefficient=0.2),
    choose_loss(policy_loss="gspo", clip_low=0.05, clip_high=0.1, kl_coefficient=0.2, kl_estimator="k1"),
    choose_loss(policy_loss="cispo", clip_low=1.0, clip_high=0.2),
    choose_loss(importance_cap=1.5, importance_level="sequence", importance_veto=0.7, kl_coefficient=0.1),
]


def batch_of(groups: Any) -> TrainBatch:
    agents = tuple(sorted({group.group.agent for group in groups}))
    return TrainBatch(policy="p", step=0, groups=tuple(groups), num_groups_without_signal=0, agents=agents)


def shares_by_hand(model: Any, groups: Any, job: Any, reference: Any) -> dict[str, float]:
    """Slopes of the loss of all `groups` in the log-probs of single answers, which nobody packed."""
    alone = job.model_copy(
        update={"training": TrainingConfig(tokens_per_micro_batch=4096, share_prompts=False, num_minibatches=1)}
    )
    recorded = record_batch(model, groups, alone, ranks=Ranks(), reference=reference)
    (micro_batch,) = rank_micro_batches(groups, range(len(groups)), alone.training, Ranks())
    found = loss_inputs(model, micro_batch, alone, recorded)
    logprobs_N = found.logprobs_N.detach().clone().requires_grad_()
    inputs: LossInputs = replace(found, logprobs_N=logprobs_N, entropies_N=found.entropies_N.detach())
    (slopes_N,) = torch.autograd.grad(minibatch_loss(inputs, job.loss, size=minibatch_size(groups)), [logprobs_N])
    sums: dict[str, float] = {}
    for slope, group in zip(slopes_N.tolist(), micro_batch.groups_N.tolist(), strict=True):
        agent = groups[group].group.agent
        sums[agent] = sums.get(agent, 0.0) + abs(slope)
    return {f"gradient_share/{agent}": value / sum(sums.values()) for agent, value in sums.items()}


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.policy_loss}-{loss.aggregation}")
def test_shares_are_those_of_autograd_however_the_update_is_cut(
    make_model: Any, make_groups: Any, score_groups: Any, make_job: Any, loss: LossConfig
) -> None:
    model = make_model()
    reference = make_model(seed=1) if loss.kl_coefficient else None
    groups = score_groups(model, make_groups(6), noise=0.3)
    loss = loss.model_copy(update={"mismatch_tolerance": None})
    wanted = shares_by_hand(model, groups, make_job(loss=loss), reference)
    assert 0.2 < wanted["gradient_share/b"] < 0.8

    @settings(deadline=None, max_examples=3)
    @given(budget=st.integers(64, 400), share=st.booleans())
    def cut(budget: int, share: bool) -> None:
        training = TrainingConfig(tokens_per_micro_batch=budget, share_prompts=share, num_minibatches=1)
        learner = PlainLearner(copy.deepcopy(model), training)
        job = make_job(loss=loss, training=training)
        update = Update(learner=learner, job=job, batch=batch_of(groups), ranks=Ranks(), reference=reference)
        metrics = update.run()
        found = {name: value for name, value in metrics.items() if name.startswith("gradient_share/")}
        assert found == pytest.approx(wanted, rel=1e-3)
        assert sum(found.values()) == pytest.approx(1.0)

    cut()


def test_ranks_add_up_and_empty_micro_batches_count_nothing(
    make_model: Any, make_groups: Any, score_groups: Any, make_job: Any
) -> None:
    model, groups = make_model(), score_groups(make_model(), make_groups(3), noise=0.3)
    training = TrainingConfig(tokens_per_micro_batch=64)
    job = make_job(loss=choose_loss(mismatch_tolerance=None), training=training)
    recorded = record_batch(model, groups, job, ranks=Ranks(), reference=None)
    shares = GradientShares(batch_of(groups))
    for rank in range(4):
        for micro_batch in rank_micro_batches(groups, range(3), training, Agreeing(rank, 4, None, 3.0)):
            inputs = loss_inputs(model, micro_batch, job, recorded)
            shares.watch(inputs.logprobs_N)
            minibatch_loss(inputs, job.loss, size=minibatch_size(groups)).backward()
            shares.add(inputs.logprobs_N, micro_batch.groups_N)
    assert shares.metrics(Ranks()) == pytest.approx(shares_by_hand(model, groups, job, None), rel=1e-3)


def test_a_role_whose_groups_are_silent_has_no_share_and_one_role_alone_has_no_metric(
    make_model: Any, make_groups: Any, make_job: Any
) -> None:
    model, groups = make_model(), make_groups(4)
    silent = [replace(g, advantages_K=(0.0,) * 4) if g.group.agent == "b" else g for g in groups]
    job = make_job(loss=choose_loss(mismatch_tolerance=None, entropy_coefficient=0.01))

    def shares(batch: TrainBatch) -> dict[str, float]:
        learner = PlainLearner(copy.deepcopy(model), job.training)
        metrics = Update(learner=learner, job=job, batch=batch, ranks=Ranks(), reference=None).run()
        return {name: value for name, value in metrics.items() if "share" in name}

    assert shares(batch_of(silent)) == {"gradient_share/a": 1.0, "gradient_share/b": 0.0}
    assert shares(batch_of([g for g in groups if g.group.agent == "a"])) == {}
    assert shares(batch_of([replace(g, advantages_K=(0.0,) * 4) for g in groups])) == {}
