"""What an update reports about its loss: detached sums, so that micro-batches and ranks add up to exact means."""

from collections.abc import Mapping

import torch
from torch import Tensor

from components.algorithms.losses import LossInputs, k3_kl
from components.config import LossConfig

SUMMED = ("clip_frac", "ratio_mean", "approx_kl", "entropy", "reference_kl", "importance_weight")
"""Statistics that are sums over tokens here and means over tokens after `means`."""


def token_statistics(inputs: LossInputs, config: LossConfig) -> dict[str, Tensor]:
    """Sums over the tokens, in float64, by name; those whose input is missing are left out.

    `clip_frac` counts tokens whose gradient the clip removes: the ratio is beyond a bound on the side where the advantage
    pushes further out. `approx_kl` is k3 of new against old (J. Schulman, 2020).
    """
    with torch.no_grad():
        log_ratios_N = inputs.logprobs_N - inputs.old_logprobs_N
        ratios_N = log_ratios_N.exp()
        too_high_N = (ratios_N > 1.0 + config.clip_high) & (inputs.advantages_N > 0)
        too_low_N = (ratios_N < 1.0 - config.clip_low) & (inputs.advantages_N < 0)
        terms: dict[str, Tensor | None] = {
            "clip_frac": too_high_N | too_low_N,
            "ratio_mean": ratios_N,
            "approx_kl": k3_kl(log_ratios_N),
            "entropy": inputs.entropies_N,
            "reference_kl": None,
            "importance_weight": inputs.importance_weights_N,
        }
        if inputs.reference_logprobs_N is not None:
            terms["reference_kl"] = k3_kl(inputs.reference_logprobs_N - inputs.logprobs_N)
        return {name: term.double().sum() for name, term in terms.items() if term is not None}


def mismatch_statistics(trainer_logprobs_N: Tensor, sampler_logprobs_N: Tensor) -> tuple[Tensor, Tensor]:
    """How far the trainer is from the sampler under equal weights: (sum of k3, largest absolute difference), in float64.

    The k3 sum over its tokens estimates KL(sampler || trainer), because the tokens were drawn by the sampler.
    """
    with torch.no_grad():
        differences_N = (trainer_logprobs_N - sampler_logprobs_N).double()
        largest = differences_N.abs().max() if differences_N.numel() else differences_N.new_zeros(())
        return k3_kl(differences_N).sum(), largest


def means(sums: Mapping[str, float], num_tokens: int) -> dict[str, float]:
    """Sums as means over `num_tokens`."""
    return {name: value / max(num_tokens, 1) for name, value in sums.items()}
