"""What an update reports about its loss: detached sums, so that micro-batches and ranks add up to exact means."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from components.algorithms.kl import k3_kl, kl_estimates
from components.algorithms.losses import LossInputs, policy_log_ratios
from components.config import LossConfig

SUMMED = (
    "clip_frac",
    "dual_clip_frac",
    "ratio_mean",
    "approx_kl",
    "entropy",
    "reference_kl",
    "importance_weight",
)
"""Statistics that are sums over tokens here and means over tokens after `means`."""


def token_statistics(inputs: LossInputs, config: LossConfig) -> dict[str, Tensor]:
    """Sums over the tokens, in float64, by name; those whose input is missing are left out.

    The ratio is the one that is clipped: under gspo an answer's, counted once a token. `clip_frac` counts tokens whose gradient
    the clip removes: the ratio is beyond a bound on the side where the advantage pushes further out. Under cispo, which removes
    none, it counts tokens whose weight a bound changes. `approx_kl` is k3 of new against old (J. Schulman, 2020).
    """
    with torch.no_grad():
        ratios_N = policy_log_ratios(inputs, config).exp()
        terms: dict[str, Tensor | None] = {
            "clip_frac": _clipped(ratios_N, inputs.advantages_N, config),
            "dual_clip_frac": None,
            "ratio_mean": ratios_N,
            "approx_kl": k3_kl(inputs.logprobs_N - inputs.old_logprobs_N),
            "entropy": inputs.entropies_N,
            "reference_kl": None,
            "importance_weight": inputs.importance_weights_N,
        }
        if config.dual_clip is not None:
            terms["dual_clip_frac"] = (ratios_N > config.dual_clip) & (inputs.advantages_N < 0)
        if inputs.reference_logprobs_N is not None:
            terms["reference_kl"] = kl_estimates(inputs.logprobs_N, inputs.reference_logprobs_N, config.kl_estimator)
        return {name: term.double().sum() for name, term in terms.items() if term is not None}


def _clipped(ratios_N: Tensor, advantages_N: Tensor, config: LossConfig) -> Tensor:
    too_high_N, too_low_N = ratios_N > 1.0 + config.clip_high, ratios_N < 1.0 - config.clip_low
    if config.policy_loss == "cispo":
        return too_high_N | too_low_N
    clipped_N = (too_high_N & (advantages_N > 0)) | (too_low_N & (advantages_N < 0))
    if config.dual_clip is not None:
        clipped_N = clipped_N | ((ratios_N > config.dual_clip) & (advantages_N < 0))
    return clipped_N


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """How far the trainer is from the sampler on some tokens, in float64.

    `kl_sum` over the tokens estimates KL(sampler || trainer), because the tokens were drawn by the sampler. `factor_sum` is
    that of `exp(|difference|)`, the factor by which a token's probability is off (NeMo-RL's token_mult_prob_error).
    """

    kl_sum: Tensor
    factor_sum: Tensor
    max_abs: Tensor


def mismatch_statistics(trainer_logprobs_N: Tensor, sampler_logprobs_N: Tensor) -> Mismatch:
    """The mismatch of N tokens; zeros for none."""
    with torch.no_grad():
        differences_N = (trainer_logprobs_N - sampler_logprobs_N).double()
        sizes_N = differences_N.abs()
        return Mismatch(
            kl_sum=k3_kl(differences_N).sum(),
            factor_sum=sizes_N.exp().sum(),
            max_abs=sizes_N.max() if sizes_N.numel() else sizes_N.new_zeros(()),
        )


def means(sums: Mapping[str, float], num_tokens: int) -> dict[str, float]:
    """Sums as means over `num_tokens`."""
    return {name: value / max(num_tokens, 1) for name, value in sums.items()}
