import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.loss_statistics import means, mismatch_statistics, token_statistics
from components.algorithms.losses import (
    LossInputs,
    clipped_surrogate,
    k3_kl,
    token_losses,
    token_mean_loss,
    truncated_importance_weights,
)
from components.config import LossConfig


def _inputs(ratios, advantages, **more) -> LossInputs:
    old = torch.full((len(ratios),), -2.0)
    return LossInputs(
        logprobs_N=old + torch.tensor(ratios).log(),
        old_logprobs_N=old,
        advantages_N=torch.tensor(advantages),
        **more,
    )


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
    value = clipped_surrogate(log_ratio, torch.tensor([advantage]), LossConfig())
    value.sum().backward()
    assert value.item() == pytest.approx(loss)
    assert log_ratio.grad.item() == pytest.approx(slope)


def test_the_bounds_are_separate() -> None:
    config = LossConfig(clip_low=0.1, clip_high=0.28)
    ratios, advantages = torch.tensor([2.0, 0.2]).log(), torch.tensor([1.0, -1.0])
    assert clipped_surrogate(ratios, advantages, config).tolist() == pytest.approx([-1.28, 0.9])


@settings(deadline=None)
@given(d=st.floats(-3, 3))
def test_k3_is_its_formula_and_never_negative(d: float) -> None:
    value = k3_kl(torch.tensor(d, dtype=torch.float64)).item()
    assert value == pytest.approx(math.exp(d) - d - 1, abs=1e-12)
    assert value >= 0


def test_k3_estimates_the_divergence_without_bias() -> None:
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)
    exact = (p * (p / q).log()).sum()
    assert (p * k3_kl(q.log() - p.log())).sum().item() == pytest.approx(exact.item(), rel=1e-12)


def test_importance_weights_are_capped_and_carry_no_gradient() -> None:
    trainer = torch.tensor([-1.0, -1.0, -3.0], requires_grad=True)
    weights = truncated_importance_weights(trainer, torch.tensor([-1.0, -3.0, -1.0]), cap=2.0)
    assert weights.tolist() == pytest.approx([1.0, 2.0, math.exp(-2)])
    assert not weights.requires_grad


def test_all_terms_add_up() -> None:
    inputs = _inputs(
        [1.0, 1.5],
        [1.0, 1.0],
        entropies_N=torch.tensor([0.7, 0.3]),
        reference_logprobs_N=torch.tensor([-2.0 + math.log(2), -2.0 + math.log(1.5)]),
        importance_weights_N=torch.tensor([0.5, 2.0]),
    )
    config = LossConfig(kl_coefficient=0.1, entropy_coefficient=0.01)
    k3 = math.exp(math.log(2)) - math.log(2) - 1
    wanted = [0.5 * -1.0 + 0.1 * k3 - 0.01 * 0.7, 2.0 * -1.2 - 0.01 * 0.3]
    assert token_losses(inputs, config).tolist() == pytest.approx(wanted, rel=1e-5)
    assert token_mean_loss(inputs, config, num_tokens=8).item() == pytest.approx(sum(wanted) / 8, rel=1e-5)


def test_a_missing_reference_is_not_a_zero_divergence() -> None:
    with pytest.raises(AssertionError, match="reference"):
        token_losses(_inputs([1.0], [1.0]), LossConfig(kl_coefficient=0.1))


@settings(deadline=None)
@given(cut=st.integers(0, 6))
def test_the_parts_of_a_minibatch_add_up_however_it_is_cut(cut: int) -> None:
    ratios, advantages = [0.5, 0.9, 1.0, 1.1, 1.3, 2.0], [1.0, -1.0, 0.5, -0.5, 2.0, -2.0]
    whole = token_mean_loss(_inputs(ratios, advantages), LossConfig(), num_tokens=6)
    parts = [
        token_mean_loss(_inputs(ratios[part], advantages[part]), LossConfig(), num_tokens=6)
        for part in (slice(0, cut), slice(cut, 6))
    ]
    assert sum(parts).item() == pytest.approx(whole.item(), abs=1e-6)


def test_statistics_are_means_of_what_they_say() -> None:
    inputs = _inputs([1.0, 1.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0], entropies_N=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    sums = {name: value.item() for name, value in token_statistics(inputs, LossConfig()).items()}
    values = means(sums, 4)
    assert values["clip_frac"] == pytest.approx(0.5)  # the third is beyond the bound and still has its gradient
    assert values["ratio_mean"] == pytest.approx(4.5 / 4)
    assert values["entropy"] == pytest.approx(2.5)
    k3 = [0.0, 0.5 - math.log(1.5), 0.5 - math.log(1.5), -0.5 - math.log(0.5)]
    assert values["approx_kl"] == pytest.approx(sum(k3) / 4, rel=1e-5)
    assert "reference_kl" not in values


def test_mismatch_is_zero_for_equal_logprobs_and_finds_the_largest_difference() -> None:
    trainer = torch.tensor([-1.0, -2.0, -0.5])
    assert [v.item() for v in mismatch_statistics(trainer, trainer)] == [0.0, 0.0]
    total, largest = mismatch_statistics(trainer, torch.tensor([-1.0, -2.5, -0.4]))
    assert largest.item() == pytest.approx(0.5)
    assert total.item() == pytest.approx(math.exp(0.5) - 1.5 + math.exp(-0.1) + 0.1 - 1, rel=1e-5)
    assert [v.item() for v in mismatch_statistics(trainer[:0], trainer[:0])] == [0.0, 0.0]
