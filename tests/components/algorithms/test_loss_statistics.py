"""What an update reports, by hand."""

import math
from typing import Any

import pytest
import torch

from components.algorithms.loss_inputs import LossInputs
from components.algorithms.loss_statistics import means, mismatch_statistics, token_statistics
from components.config import LossConfig
from tests.sections import choose_loss

NAMES = {
    *("clip_frac", "dual_clip_frac", "ratio_mean", "approx_kl", "entropy", "reference_kl"),
    "importance_weight",
}


def _inputs(ratios: list[float], advantages: list[float], lengths: list[int] | None = None, **more: Any) -> LossInputs:
    old = torch.full((len(ratios),), -2.0)
    counts = torch.tensor(lengths or [1] * len(ratios))
    return LossInputs(
        logprobs_N=old + torch.tensor(ratios).log(),
        old_logprobs_N=old,
        advantages_N=torch.tensor(advantages),
        completions_N=torch.arange(len(counts)).repeat_interleave(counts),
        lengths_N=counts.repeat_interleave(counts),
        **more,
    )


def _means(inputs: LossInputs, config: LossConfig) -> dict[str, float]:
    sums = {name: value.item() for name, value in token_statistics(inputs, config).items()}
    assert set(sums) <= NAMES
    return means(sums, len(inputs.logprobs_N))


def test_statistics_are_means_of_what_they_say() -> None:
    inputs = _inputs([1.0, 1.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0], entropies_N=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    values = _means(inputs, choose_loss())
    assert values["clip_frac"] == pytest.approx(0.5)  # the third is beyond the bound and still has its gradient
    assert values["ratio_mean"] == pytest.approx(4.5 / 4)
    assert values["entropy"] == pytest.approx(2.5)
    k3 = [0.0, 0.5 - math.log(1.5), 0.5 - math.log(1.5), -0.5 - math.log(0.5)]
    assert values["approx_kl"] == pytest.approx(sum(k3) / 4, rel=1e-5)
    assert "reference_kl" not in values
    assert "dual_clip_frac" not in values


def test_the_dual_clip_removes_gradients_too() -> None:
    values = _means(_inputs([9.0, 2.0, 9.0, 1.0], [-1.0, -1.0, 1.0, 1.0]), choose_loss(dual_clip=3.0))
    assert values["dual_clip_frac"] == 0.25
    assert values["clip_frac"] == 0.5


def test_gspo_counts_the_tokens_of_clipped_answers() -> None:
    inputs = _inputs([2.0, 0.5, 4.0, 1.0], [1.0, 1.0, 1.0, 1.0], [2, 2])
    values = _means(inputs, choose_loss(policy_loss="gspo"))
    assert values["clip_frac"] == 0.5
    assert values["ratio_mean"] == pytest.approx((1 + 1 + 2 + 2) / 4)


def test_cispo_counts_the_weights_that_a_bound_changed() -> None:
    config = choose_loss(policy_loss="cispo", clip_low=1.0, clip_high=1.0)
    assert _means(_inputs([3.0, 3.0, 0.1, 1.0], [1.0, -1.0, -1.0, 1.0]), config)["clip_frac"] == 0.5


@pytest.mark.parametrize(("estimator", "value"), [("k1", -math.log(2)), ("k2", math.log(2) ** 2 / 2), ("k3", 0.3069)])
def test_the_reference_divergence_is_the_estimate_of_the_loss(estimator: str, value: float) -> None:
    inputs = _inputs([1.0], [1.0], reference_logprobs_N=torch.tensor([-2.0 + math.log(2)]))
    values = _means(inputs, choose_loss(kl_coefficient=0.1, kl_estimator=estimator))
    assert values["reference_kl"] == pytest.approx(value, abs=1e-4)


def test_mismatch_is_zero_for_equal_logprobs_and_finds_the_largest_difference() -> None:
    trainer = torch.tensor([-1.0, -2.0, -0.5])
    same, largest = mismatch_statistics(trainer, trainer)
    assert (same["mismatch_kl"].item(), same["mismatch_factor"].item(), largest.item()) == (0.0, 3.0, 0.0)
    found, largest = mismatch_statistics(trainer, torch.tensor([-1.0, -2.5, -0.4]))
    assert largest.item() == pytest.approx(0.5)
    assert found["mismatch_kl"].item() == pytest.approx(math.exp(0.5) - 1.5 + math.exp(-0.1) + 0.1 - 1, rel=1e-5)
    assert found["mismatch_factor"].item() == pytest.approx(1 + math.exp(0.5) + math.exp(0.1), rel=1e-5)
    nothing, largest = mismatch_statistics(trainer[:0], trainer[:0])
    assert (nothing["mismatch_kl"].item(), largest.item()) == (0.0, 0.0)
