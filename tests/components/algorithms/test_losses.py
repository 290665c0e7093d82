"""The policy terms by hand: values, slopes and how terms add up."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.clip import compute_clipped_surrogate
from components.algorithms.loss_inputs import LossInputs
from components.algorithms.loss_registry import policy_loss
from components.algorithms.losses import MinibatchSize, minibatch_loss, token_losses
from components.config import LossConfig
from tests.sections import choose_loss


def _inputs(ratios, advantages, lengths=None, **more) -> LossInputs:
    """Tokens with old log-prob -2; `lengths` cuts them into completions, one for all when left out."""
    old = torch.full((len(ratios),), -2.0)
    lengths = torch.tensor(lengths or [len(ratios)])
    return LossInputs(
        logprobs_N=old + torch.tensor(ratios).log(),
        old_logprobs_N=old,
        advantages_N=torch.tensor(advantages),
        completions_N=torch.arange(len(lengths)).repeat_interleave(lengths),
        lengths_N=lengths.repeat_interleave(lengths),
        **more,
    )


def _slopes(inputs: LossInputs, config: LossConfig) -> list[float]:
    """The slope of the summed policy losses in each log-prob."""
    logprobs = inputs.logprobs_N.clone().requires_grad_()
    policy_loss(config).losses(replace(inputs, logprobs_N=logprobs), config).sum().backward()
    return logprobs.grad.tolist()


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (1.0, 1.0, -1.0, -1.0),
        (1.5, 1.0, -1.2, 0.0),  # pushed beyond the upper bound: clipped
        (1.5, -1.0, 1.5, 1.5),  # the bound never hides a loss
        (0.5, 1.0, -0.5, -0.5),
        (0.5, -1.0, 0.8, 0.0),
        (1.1, 2.0, -2.2, -2.2),
    ],
)
def test_the_surrogate_and_its_slope_in_the_log_ratio(ratio, advantage, loss, slope) -> None:
    log_ratio = torch.tensor([math.log(ratio)], requires_grad=True)
    value = compute_clipped_surrogate(log_ratio, torch.tensor([advantage]), choose_loss())
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert log_ratio.grad.item() == pytest.approx(slope)


def test_the_bounds_are_separate() -> None:
    config = choose_loss(clip_low=0.1, clip_high=0.28)
    ratios, advantages = torch.tensor([2.0, 0.2]).log(), torch.tensor([1.0, -1.0])
    assert compute_clipped_surrogate(ratios, advantages, config).tolist() == pytest.approx([-1.28, 0.9])


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    [
        (9.0, -1.0, 3.0, 0.0),  # bounded: an answer that became likely is not pushed without end
        (2.0, -1.0, 2.0, 2.0),
        (0.5, -1.0, 0.8, 0.0),
        (9.0, 1.0, -1.2, 0.0),
    ],
)
def test_the_dual_clip_bounds_the_loss_of_bad_answers_alone(ratio, advantage, loss, slope) -> None:
    inputs, config = _inputs([ratio], [advantage]), choose_loss(dual_clip=3.0)
    assert policy_loss(config).losses(inputs, config).item() == pytest.approx(loss)
    assert _slopes(inputs, config) == [pytest.approx(slope, abs=1e-6)]


def test_gspo_clips_the_geometric_mean_of_an_answers_ratios() -> None:
    # Answers with ratios (2, .5), whose mean is 1, and (4, 1), whose mean is 2.
    inputs = _inputs([2.0, 0.5, 4.0, 1.0], [1.0, 1.0, -1.0, -1.0], [2, 2])
    config = choose_loss(policy_loss="gspo")
    assert policy_loss(config).losses(inputs, config).tolist() == pytest.approx([-1.0, -1.0, 2.0, 2.0])
    assert minibatch_loss(inputs, config, size=MinibatchSize(num_completions=2, num_tokens=4)).item() == pytest.approx(
        0.5
    )
    # Each token moves the mean by 1/2, and the mean is in both tokens' terms: slope -s A * 2 * 1/2.
    assert _slopes(inputs, config) == pytest.approx([-1.0, -1.0, 2.0, 2.0])
    clipped = _inputs([2.0, 2.0], [1.0, 1.0], [2])
    assert policy_loss(config).losses(clipped, config).tolist() == pytest.approx([-1.2, -1.2])
    assert _slopes(clipped, config) == [0.0, 0.0]


def test_cispo_keeps_every_gradient_at_a_bounded_weight() -> None:
    config = choose_loss(policy_loss="cispo", clip_low=1.0, clip_high=4.0)
    inputs = _inputs([9.0, 0.1, 2.0], [1.0, 1.0, -1.0])
    logprobs = inputs.logprobs_N.tolist()
    wanted = [-5.0 * logprobs[0], -0.1 * logprobs[1], 2.0 * logprobs[2]]
    assert policy_loss(config).losses(inputs, config).tolist() == pytest.approx(wanted, rel=1e-5)
    assert _slopes(inputs, config) == pytest.approx([-5.0, -0.1, 2.0], rel=1e-5)
    raised = choose_loss(policy_loss="cispo", clip_low=0.2)
    assert _slopes(inputs, raised)[1] == pytest.approx(-0.8, rel=1e-5)


def test_all_terms_add_up() -> None:
    inputs = _inputs(
        [1.0, 1.5],
        [1.0, 1.0],
        entropies_N=torch.tensor([0.7, 0.3]),
        reference_logprobs_N=torch.tensor([-2.0 + math.log(2), -2.0 + math.log(1.5)]),
        importance_weights_N=torch.tensor([0.5, 2.0]),
    )
    config = choose_loss(kl_coefficient=0.1, entropy_coefficient=0.01)
    k3 = math.exp(math.log(2)) - math.log(2) - 1
    wanted = [0.5 * -1.0 + 0.1 * k3 - 0.01 * 0.7, 2.0 * -1.2 - 0.01 * 0.3]
    assert token_losses(inputs, config).tolist() == pytest.approx(wanted, rel=1e-5)
    loss = minibatch_loss(inputs, config, size=MinibatchSize(num_completions=9, num_tokens=8))
    assert loss.item() == pytest.approx(sum(wanted) / 8, rel=1e-5)


def test_what_is_not_kept_adds_nothing_whatever_it_is() -> None:
    inputs = _inputs(
        [1.0, 1.5],
        [1.0, 1.0],
        entropies_N=torch.tensor([0.7, 0.3]),
        reference_logprobs_N=torch.tensor([float("inf"), -2.0]),
        kept_N=torch.tensor([False, True]),
    )
    config = choose_loss(kl_coefficient=0.1, entropy_coefficient=0.01)
    found = token_losses(inputs, config).tolist()
    assert found[0] == 0.0 != found[1]


def test_a_missing_reference_is_not_a_zero_divergence() -> None:
    with pytest.raises(AssertionError, match="reference"):
        token_losses(_inputs([1.0], [1.0]), choose_loss(kl_coefficient=0.1))


@settings(deadline=None)
@given(
    cut=st.integers(0, 3), aggregation=st.sampled_from(["token_mean", "sequence_mean", "sequence_sum", "fixed_length"])
)
def test_the_parts_of_a_minibatch_add_up_however_it_is_cut(cut: int, aggregation: str) -> None:
    config = choose_loss(aggregation=aggregation, fixed_length=5)
    ratios, advantages, lengths = [0.5, 0.9, 1.0, 1.1, 1.3, 2.0], [1.0, -1.0, 0.5, -0.5, 2.0, -2.0], [1, 3, 2]
    size = MinibatchSize(num_completions=3, num_tokens=6)
    whole = minibatch_loss(_inputs(ratios, advantages, lengths), config, size=size)
    at = sum(lengths[:cut])
    parts = [
        minibatch_loss(_inputs(ratios[part], advantages[part], lengths[some] or [0]), config, size=size)
        for part, some in ((slice(0, at), slice(0, cut)), (slice(at, 6), slice(cut, 3)))
    ]
    assert sum(parts).item() == pytest.approx(whole.item(), abs=1e-6)
