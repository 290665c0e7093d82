"""The update against a plain learner: one forward a completion, autograd, and torch's AdamW, without DeepSpeed or packing."""

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.importance import correction_metrics
from components.algorithms.losses import minibatch_loss
from components.config import LossConfig, TrainingConfig
from components.errors import LogprobMismatch, UpdateFailed
from components.schema import PolicyVersion, TrainBatch
from components.training.packing import empty_micro_batch, pack_groups
from components.training.rank_batches import count_size, minibatch_size, rank_micro_batches, record_logprobs
from components.training.ranks import Ranks
from components.training.reference_logprobs import Recorded, correct_here, loss_inputs, record_batch
from components.training.update import Update
from tests.sections import choose_loss


class PlainLearner:
    """The part of DeepSpeed's learner that an update uses, by torch alone on one rank. Counts what was done."""

    def __init__(self, model: Any, training: TrainingConfig) -> None:
        self.module = model
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1.0, betas=training.adam_betas, weight_decay=training.weight_decay
        )
        self.max_grad_norm = training.max_grad_norm
        self.num_steps = 0
        self.boundaries: list[bool] = []
        self.rates: list[float] = []

    def __call__(self, **inputs: Any) -> Any:
        return self.module(**inputs)

    def parameters(self) -> Any:
        return self.module.parameters()

    def zero_optimization(self) -> bool:
        return False

    def bfloat16_enabled(self) -> bool:
        return False

    def set_gradient_accumulation_boundary(self, is_boundary: bool) -> None:
        self.boundaries.append(is_boundary)

    def backward(self, loss: torch.Tensor, *, scale_wrt_gas: bool) -> None:
        assert not scale_wrt_gas
        loss.backward()

    def step(self) -> None:
        assert self.boundaries[-1]
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.max_grad_norm)
        self.rates.append(self.optimizer.param_groups[0]["lr"])
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.num_steps += 1


def _update(model: Any, job: Any, groups: Any, reference: Any = None) -> tuple[PlainLearner, dict[str, float]]:
    learner = PlainLearner(copy.deepcopy(model), job.training)
    batch = TrainBatch(policy="p", step=0, groups=tuple(groups), num_groups_without_signal=0)
    return learner, Update(learner=learner, job=job, batch=batch, ranks=Ranks(), reference=reference).run()


def _sample_by(step: int, digest: str = "w") -> PolicyVersion:
    return PolicyVersion(policy="p", step=step, weights_digest=digest)


def _weights(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def _loss_and_gradient(
    model: Any, groups: Any, job: Any, ranks: int, reference: Any = None
) -> tuple[float, torch.Tensor]:
    """The minibatch's loss and gradient, summed over micro-batches and simulated ranks."""
    model.zero_grad()
    recorded = record_batch(model, groups, job, ranks=Ranks(), reference=reference)
    size = minibatch_size(groups)
    loss = torch.zeros(())
    for rank in range(ranks):
        for batch in rank_micro_batches(groups, range(len(groups)), job.training, _Simulated(rank, ranks)):
            loss = loss + minibatch_loss(loss_inputs(model, batch, job, recorded), job.loss, size=size)
    loss.backward()
    return loss.item(), torch.cat([p.grad.reshape(-1) for p in model.parameters()])


class _Simulated(Ranks):
    """One of several ranks in one process; its maximum is its own, so it may have fewer micro-batches than others."""

    def max(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor


LOSSES = [
    choose_loss(),
    choose_loss(aggregation="sequence_mean", entropy_coefficient=0.1),
    choose_loss(aggregation="sequence_sum", dual_clip=1.5),
    choose_loss(aggregation="fixed_length", fixed_length=9, kl_coefficient=0.1, kl_estimator="k2"),
    choose_loss(policy_loss="gspo", clip_low=0.05, clip_high=0.1, kl_coefficient=0.1, kl_estimator="k1"),
    choose_loss(policy_loss="cispo", clip_low=1.0, clip_high=0.2),
    choose_loss(importance_cap=1.1, kl_coefficient=0.1),
    choose_loss(importance_cap=1.5, importance_level="sequence", importance_veto=0.7, kl_coefficient=0.1),
]
CORRECTED = [loss for loss in LOSSES if loss.importance_cap is not None]


@pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda loss: f"{loss.policy_loss}-{loss.aggregation}-{loss.importance_level}"
)
def test_loss_and_gradient_do_not_depend_on_packing_micro_batches_padding_or_ranks(
    make_model, make_groups, score_groups, make_job, loss: LossConfig
) -> None:
    model, reference = make_model(), make_model(seed=1) if loss.kl_coefficient else None
    groups = score_groups(model, make_groups(7), noise=0.3)
    flat = make_job(loss=loss, training=TrainingConfig(tokens_per_micro_batch=64, share_prompts=False))
    wanted_loss, wanted = _loss_and_gradient(model, groups, flat, 1, reference)

    @settings(deadline=None, max_examples=4)
    @given(budget=st.integers(64, 600), share=st.booleans(), ranks=st.integers(1, 4))
    def cut(budget: int, share: bool, ranks: int) -> None:
        job = make_job(loss=loss, training=TrainingConfig(tokens_per_micro_batch=budget, share_prompts=share))
        found_loss, gradient = _loss_and_gradient(model, groups, job, ranks, reference)
        assert found_loss == pytest.approx(wanted_loss, abs=1e-6, rel=1e-5)
        assert (gradient - wanted).norm() < 1e-5 * wanted.norm()

    cut()


def test_the_loss_is_that_of_each_completion_alone(make_model, make_groups, score_groups, make_job) -> None:
    model = make_model()
    groups = score_groups(model, make_groups(5), noise=0.3)
    total, num_tokens = 0.0, 0
    for group in groups:
        for tokens, sampled, advantage in zip(
            group.completions_K_T, group.sampler_logprobs_K_T, group.advantages_K, strict=True
        ):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([group.prompt_tokens + tokens])).logits[0]
            logprobs = logits[len(group.prompt_tokens) - 1 : -1].log_softmax(-1)[range(len(tokens)), list(tokens)]
            for new, old in zip(logprobs.tolist(), sampled, strict=True):
                ratio = torch.tensor(new - old).exp().item()
                total -= min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
                num_tokens += 1
    loss, _ = _loss_and_gradient(model, groups, make_job(), 1)
    assert loss == pytest.approx(total / num_tokens, abs=1e-6)


def test_one_update_is_one_adamw_step_a_minibatch(make_model, make_groups, score_groups, make_job) -> None:
    model = make_model()
    groups = score_groups(model, make_groups(6))
    training = TrainingConfig(
        num_minibatches=2, num_epochs=2, learning_rate=1e-3, num_warmup_updates=4, tokens_per_micro_batch=64
    )
    learner, metrics = _update(model, make_job(training=training), groups)
    assert learner.num_steps == metrics["num_updates"] == 4
    assert learner.boundaries.count(True) == 4 < len(learner.boundaries)
    assert learner.rates == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3])
    assert metrics["learning_rate"] == 1e-3
    assert metrics["mismatch_max_abs"] < 1e-5
    assert metrics["num_tokens"] == sum(len(c) for g in groups for c in g.completions_K_T)
    assert metrics["ratio_mean"] != 1.0


def test_an_empty_batch_takes_no_step(make_model, make_job) -> None:
    model = make_model()
    learner, metrics = _update(model, make_job(), [])
    assert learner.num_steps == 0
    assert metrics == dict.fromkeys(("num_updates", "num_tokens", "num_rows", "num_rows_with_signal"), 0.0)
    assert torch.equal(_weights(learner.module), _weights(model))


def test_fewer_groups_than_minibatches_take_fewer_steps(make_model, make_groups, score_groups, make_job) -> None:
    model = make_model()
    learner, _ = _update(
        model, make_job(training=TrainingConfig(num_minibatches=5)), score_groups(model, make_groups(2))
    )
    assert learner.num_steps == 2


@pytest.mark.parametrize("cap", [None, 2.0])
def test_a_stale_sampler_is_found_before_the_first_step(make_model, make_groups, score_groups, make_job, cap) -> None:
    model = make_model()
    stale = score_groups(make_model(seed=1), make_groups(6))
    learner = PlainLearner(copy.deepcopy(model), TrainingConfig())
    batch = TrainBatch(policy="p", step=0, groups=tuple(stale), num_groups_without_signal=0)
    job = make_job(loss=choose_loss(importance_cap=cap))
    with pytest.raises(LogprobMismatch, match=r"policy p, step 0: .* loss\.mismatch_tolerance is 0\.001"):
        Update(learner=learner, job=job, batch=batch, ranks=Ranks(), reference=None).run()
    assert learner.num_steps == 0
    assert torch.equal(_weights(learner.module), _weights(model))


@pytest.mark.parametrize(
    ("shift", "advice"),
    [
        (0.05, "only then raise the tolerance, and set loss.importance_cap"),
        (4.0, "a higher tolerance would only hide it"),
    ],
)
def test_a_higher_tolerance_is_advised_only_where_rounding_may_be_the_reason(
    make_model, make_groups, score_groups, make_job, shift: float, advice: str
) -> None:
    model = make_model()
    off = [
        replace(group, sampler_logprobs_K_T=tuple(tuple(p + shift for p in row) for row in group.sampler_logprobs_K_T))
        for group in score_groups(model, make_groups(2))
    ]
    batch = TrainBatch(policy="p", step=0, groups=tuple(off), num_groups_without_signal=0)
    job = make_job()
    with pytest.raises(LogprobMismatch, match=advice):
        Update(learner=PlainLearner(model, job.training), job=job, batch=batch, ranks=Ranks(), reference=None).run()


def test_weights_correct_for_a_sampler_that_is_off_and_the_ratio_starts_at_one(
    make_model, make_groups, score_groups, make_job
) -> None:
    model = make_model()
    groups = score_groups(model, make_groups(6), noise=0.5)
    training = TrainingConfig(num_minibatches=1)
    _, plain = _update(model, make_job(training=training, loss=choose_loss(mismatch_tolerance=None)), groups)
    _, corrected = _update(
        model, make_job(training=training, loss=choose_loss(mismatch_tolerance=None, importance_cap=1.5)), groups
    )
    assert plain["ratio_mean"] > 1.05
    assert corrected["ratio_mean"] == pytest.approx(1.0, abs=1e-6)
    assert corrected["clip_frac"] == 0.0 < plain["clip_frac"]
    assert corrected["mismatch_kl"] == pytest.approx(plain["mismatch_kl"], rel=1e-4)
    assert 0.5 < corrected["importance_weight"] <= 1.5


def test_a_reference_pulls_towards_itself(make_model, make_groups, score_groups, make_job) -> None:
    model, reference = make_model(), make_model(seed=1)
    groups = score_groups(model, make_groups(6))
    training = TrainingConfig(num_minibatches=1, num_epochs=8, learning_rate=3e-3)

    def divergence(coefficient: float) -> float:
        learner, _ = _update(
            model,
            make_job(training=training, loss=choose_loss(kl_coefficient=coefficient)),
            groups,
            reference if coefficient else None,
        )
        mine = record_logprobs(learner, groups, training=training, temperature=1.0, ranks=Ranks()).values
        theirs = record_logprobs(reference, groups, training=training, temperature=1.0, ranks=Ranks()).values
        return float((mine - theirs).abs().mean())

    assert divergence(1.0) < 0.9 * divergence(0.0)


def test_the_entropy_bonus_raises_entropy(make_model, make_groups, score_groups, make_job) -> None:
    model = make_model()
    groups = score_groups(model, make_groups(6))
    training = TrainingConfig(num_minibatches=1, num_epochs=5, learning_rate=3e-3)
    entropies = [
        _update(model, make_job(training=training, loss=choose_loss(entropy_coefficient=c)), groups)[1]["entropy"]
        for c in (0.0, 1.0)
    ]
    assert entropies[1] > entropies[0]


def test_a_loss_that_is_not_finite_is_never_saved(make_model, make_groups, score_groups, make_job) -> None:
    model = make_model()
    groups = [replace(g, advantages_K=(float("inf"),) * 4) for g in score_groups(model, make_groups(2))]
    with pytest.raises(UpdateFailed, match="not finite"):
        _update(model, make_job(), groups)


def test_recorded_logprobs_find_their_tokens_in_any_packing(make_model, make_groups, score_groups) -> None:
    model = make_model()
    groups = score_groups(model, make_groups(5))
    recorded = record_logprobs(
        model, groups, training=TrainingConfig(tokens_per_micro_batch=100), temperature=1.0, ranks=Ranks()
    )
    for batch in pack_groups(groups, tokens_per_micro_batch=64, share_prompts=False):
        assert recorded.of(batch).numpy() == pytest.approx(batch.sampler_logprobs_N, abs=1e-5)


def test_a_batch_of_the_weights_before_is_corrected_and_not_held_to_the_tolerance(
    make_model, make_groups, score_groups, make_job
) -> None:
    model, before = make_model(), make_model(seed=1)
    batch = TrainBatch(
        policy="p",
        step=3,
        groups=tuple(score_groups(before, make_groups(6))),
        num_groups_without_signal=0,
        version=_sample_by(2, "before"),
    )
    learner = PlainLearner(copy.deepcopy(model), TrainingConfig())
    job = make_job(step=3, weights_digest="w", loss=choose_loss(importance_cap=2.0))
    metrics = Update(learner=learner, job=job, batch=batch, ranks=Ranks(), reference=None).run()
    assert learner.num_steps == 2
    assert metrics["sampler_lag"] == 1.0
    assert metrics["mismatch_max_abs"] > 0.1
    assert 0.0 < metrics["importance_ess"] < 1.0


@pytest.mark.parametrize("loss", CORRECTED, ids=lambda loss: loss.importance_level)
def test_an_update_of_one_step_corrects_without_another_forward(
    loss: LossConfig, make_model, make_groups, score_groups, make_job, monkeypatch
) -> None:
    """It takes the same step, and counts the same, as one that records the policy's log-probabilities before its step."""
    model = make_model()
    groups = score_groups(make_model(seed=1), make_groups(6))
    loss = loss.model_copy(update={"mismatch_tolerance": None})
    job = make_job(loss=loss, training=TrainingConfig(num_minibatches=1, tokens_per_micro_batch=64))
    forwards: list[bool] = []
    model.register_forward_pre_hook(lambda *_: forwards.append(torch.is_grad_enabled()))
    learner, metrics = _update(model, job, groups, reference=make_model(seed=2))
    num_micro_batches = len(rank_micro_batches(groups, range(len(groups)), job.training, Ranks()))
    assert num_micro_batches > 1
    assert forwards == [True] * num_micro_batches
    monkeypatch.setattr(Update, "_has_one_step", False)
    recorded, wanted = _update(model, job, groups, reference=make_model(seed=2))
    assert learner.num_steps == recorded.num_steps == 1
    torch.testing.assert_close(_weights(learner), _weights(recorded), rtol=1e-5, atol=1e-7)
    assert metrics.keys() == wanted.keys()
    assert metrics == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    assert 0.0 < metrics["importance_capped_frac"] < 1.0


@pytest.mark.parametrize("loss", CORRECTED, ids=lambda loss: loss.importance_level)
def test_corrections_of_ranks_and_of_padding_add_up_to_that_of_the_batch(
    loss: LossConfig, make_model, make_groups, score_groups, make_job
) -> None:
    model = make_model()
    groups = score_groups(make_model(seed=1), make_groups(6))
    job = make_job(loss=loss, training=TrainingConfig(num_minibatches=1, tokens_per_micro_batch=64))
    shares = [rank_micro_batches(groups, range(len(groups)), job.training, _Simulated(rank, 2)) for rank in range(2)]
    assert all(shares)
    parts = [
        correct_here(loss_inputs(model, batch, job, Recorded()), batch, job)[1].sums
        for share in shares
        for batch in (*share, empty_micro_batch())
    ]
    wanted = record_batch(model, groups, job, ranks=Ranks(), reference=None).metrics
    found = correction_metrics({name: float(sum(part[name] for part in parts)) for name in parts[0]})
    assert found == pytest.approx(wanted, rel=1e-5)


def test_one_step_off_the_gradient_is_that_of_decoupled_ppo(make_model, make_groups, score_groups, make_job) -> None:
    """Answer by answer: -sg[min(start / sampler, cap)] * A * grad log pi, because the clipped ratio is 1 at the start."""
    model = make_model()
    groups = score_groups(make_model(seed=1), make_groups(5))
    job = make_job(loss=choose_loss(importance_cap=1.3))
    _, found = _loss_and_gradient(model, groups, job, 1)
    model.zero_grad()
    num_tokens = minibatch_size(groups).num_tokens
    for group in groups:
        for tokens, sampled, advantage in zip(
            group.completions_K_T, group.sampler_logprobs_K_T, group.advantages_K, strict=True
        ):
            logits = model(input_ids=torch.tensor([group.prompt_tokens + tokens])).logits[0]
            logprobs = logits[len(group.prompt_tokens) - 1 : -1].log_softmax(-1)[range(len(tokens)), list(tokens)]
            weights = (logprobs.detach() - torch.tensor(sampled)).exp().clamp(max=1.3)
            (-(weights * advantage * logprobs).sum() / num_tokens).backward()
    wanted = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    assert (found - wanted).norm() < 1e-5 * wanted.norm()


@pytest.mark.parametrize(
    ("version", "cap", "message"),
    [
        (_sample_by(1, "other"), 2.0, "sampled by the weights of step 1"),
        (_sample_by(4, "other"), 2.0, "sampled by the weights of step 4"),
        (_sample_by(3, "other"), 2.0, "sampled by other, the update starts from w"),
        (_sample_by(2, "other"), None, "sampled by the weights of step 2, without a correction"),
    ],
)
def test_weights_that_nobody_asked_for_are_a_broken_invariant(
    make_model, make_groups, score_groups, make_job, version, cap, message
) -> None:
    model = make_model()
    groups = tuple(score_groups(model, make_groups(2)))
    batch = TrainBatch(policy="p", step=3, groups=groups, num_groups_without_signal=0, version=version)
    job = make_job(step=3, weights_digest="w", loss=choose_loss(importance_cap=cap))
    learner = PlainLearner(copy.deepcopy(model), job.training)
    with pytest.raises(AssertionError, match=message):
        Update(learner=learner, job=job, batch=batch, ranks=Ranks(), reference=None).run()
    assert learner.num_steps == 0


def test_the_tolerance_holds_for_a_fresh_batch_that_names_its_version(
    make_model, make_groups, score_groups, make_job
) -> None:
    model = make_model()
    groups = tuple(score_groups(make_model(seed=1), make_groups(3)))
    batch = TrainBatch(policy="p", step=3, groups=groups, num_groups_without_signal=0, version=_sample_by(3))
    job = make_job(step=3, weights_digest="w", loss=choose_loss(importance_cap=2.0))
    with pytest.raises(LogprobMismatch, match=r"loss\.mismatch_tolerance"):
        Update(learner=PlainLearner(model, job.training), job=job, batch=batch, ranks=Ranks(), reference=None).run()


def test_truncated_answers_are_left_out_as_if_they_had_not_been_drawn(
    make_model, make_groups, score_groups, make_job
) -> None:
    model = make_model()
    groups = score_groups(model, make_groups(4))
    marked = [
        replace(group, truncated_K=tuple((number + k) % 3 == 0 for k in range(4)))
        for number, group in enumerate(groups)
    ]
    marked[3] = replace(groups[3], truncated_K=(True,) * 4)
    fewer = []
    for group in marked[:3]:
        kept = [k for k in range(4) if not group.truncated_K[k]]
        fewer.append(
            replace(
                group,
                completions_K_T=tuple(group.completions_K_T[k] for k in kept),
                sampler_logprobs_K_T=tuple(group.sampler_logprobs_K_T[k] for k in kept),
                advantages_K=tuple(group.advantages_K[k] for k in kept),
                truncated_K=(),
            )
        )
    training = TrainingConfig(num_minibatches=1)
    masking = make_job(training=training, loss=choose_loss(mask_truncated=True, aggregation="sequence_mean"))
    plain = make_job(training=training, loss=choose_loss(aggregation="sequence_mean"))
    masked_learner, masked = _update(model, masking, marked)
    learner, metrics = _update(model, plain, fewer)
    assert torch.equal(_weights(masked_learner.module), _weights(learner.module))
    assert masked == {**metrics, "masked_frac": 1 - sum(len(g.completions_K_T) for g in fewer) / 16}
    ignored, _ = _update(model, plain, marked)
    assert not torch.equal(_weights(ignored.module), _weights(learner.module))


def test_a_batch_of_truncated_answers_alone_takes_no_step(make_model, make_groups, score_groups, make_job) -> None:
    model = make_model()
    groups = [replace(group, truncated_K=(True,) * 4) for group in score_groups(model, make_groups(2))]
    learner, metrics = _update(model, make_job(loss=choose_loss(mask_truncated=True)), groups)
    assert (learner.num_steps, metrics["num_updates"], metrics["masked_frac"]) == (0, 0.0, 1.0)


def test_a_vetoed_answer_adds_nothing_and_keeps_its_place_in_the_mean(
    make_model, make_groups, score_groups, make_job
) -> None:
    model = make_model()
    groups = score_groups(model, make_groups(3))
    logprobs = [list(t) for t in groups[1].sampler_logprobs_K_T]
    logprobs[2][0] -= math.log(0.5) * 8  # the trainer gives this token 1/256 of what the sampler gave
    groups[1] = replace(groups[1], sampler_logprobs_K_T=tuple(tuple(t) for t in logprobs))
    loss = choose_loss(importance_cap=2.0, importance_veto=0.01, mismatch_tolerance=None, entropy_coefficient=0.1)
    vetoed_loss, vetoed = _loss_and_gradient(model, groups, make_job(loss=loss), 1)
    without = replace(
        groups[1],
        completions_K_T=tuple(c for k, c in enumerate(groups[1].completions_K_T) if k != 2),
        sampler_logprobs_K_T=tuple(c for k, c in enumerate(groups[1].sampler_logprobs_K_T) if k != 2),
        advantages_K=tuple(a for k, a in enumerate(groups[1].advantages_K) if k != 2),
    )
    fewer = [groups[0], without, groups[2]]
    fewer_loss, fewer_gradient = _loss_and_gradient(model, fewer, make_job(loss=loss), 1)
    share = minibatch_size(fewer).num_tokens / minibatch_size(groups).num_tokens
    assert vetoed_loss == pytest.approx(fewer_loss * share, rel=1e-5)
    assert (vetoed - fewer_gradient * share).norm() < 1e-5 * vetoed.norm()
    _, metrics = _update(model, make_job(loss=loss), groups)
    assert metrics["importance_veto_frac"] == pytest.approx(1 / 12)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
def test_means_over_all_answers_are_those_of_a_batch_that_left_nothing_out(
    make_model, make_groups, score_groups, make_job, aggregation
) -> None:
    model = make_model()
    groups = score_groups(model, make_groups(6))
    silent = [replace(group, advantages_K=(0.0,) * len(group.advantages_K)) for group in groups[4:]]
    lengths = tuple(len(tokens) for group in silent for tokens in group.completions_K_T)
    left_out = TrainBatch(
        policy="p",
        step=0,
        groups=tuple(groups[:4]),
        num_groups_without_signal=2,
        lengths_without_signal=lengths,
        truncated_without_signal=(False,) * len(lengths),
    )
    whole = TrainBatch(policy="p", step=0, groups=(*groups[:4], *silent), num_groups_without_signal=0)
    # Plain descent without a clip shows the size of the gradient, which Adam hides.
    training = TrainingConfig(num_minibatches=1, max_grad_norm=1e9)
    moved = {}
    for name, batch, loss in (
        ("all", left_out, choose_loss(aggregation=aggregation)),
        ("nonzero", left_out, choose_loss(aggregation=aggregation, average_over="nonzero")),
        ("whole", whole, choose_loss(aggregation=aggregation)),
    ):
        learner = PlainLearner(copy.deepcopy(model), training)
        learner.optimizer = torch.optim.SGD(learner.module.parameters(), lr=1.0)
        job = make_job(loss=loss, training=training)
        Update(learner=learner, job=job, batch=batch, ranks=Ranks(), reference=None).run()
        moved[name] = _weights(learner.module) - _weights(model)
    assert (moved["all"] - moved["whole"]).norm() < 1e-4 * moved["whole"].norm()
    assert moved["nonzero"].norm() > 1.2 * moved["all"].norm()


def test_minibatches_share_the_answers_that_were_left_out(make_groups) -> None:
    groups = tuple(make_groups(8))
    batch = TrainBatch(
        policy="p",
        step=0,
        groups=groups,
        num_groups_without_signal=2,
        lengths_without_signal=(3,) * 8,
        truncated_without_signal=(True,) * 4 + (False,) * 4,
    )
    own, loss = minibatch_size(groups), choose_loss()
    whole = count_size(batch, range(8), loss)
    assert (whole.num_completions, whole.num_tokens) == (own.num_completions + 8, own.num_tokens + 24)
    parts = [count_size(batch, indices, loss) for indices in (range(4), range(4, 8))]
    assert sum(part.num_tokens for part in parts) == pytest.approx(whole.num_tokens, abs=2)
    masked = count_size(batch, range(8), choose_loss(mask_truncated=True))
    assert masked.num_tokens == own.num_tokens + 12
    assert count_size(batch, range(8), choose_loss(average_over="nonzero")) == own
