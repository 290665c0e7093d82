"""Statistics of the loss as detached sums, so that micro-batches and ranks add up to exact means."""

from collections.abc import Mapping

import torch
from torch import Tensor

from components.algorithms.kl import k3_kl, kl_estimates
from components.algorithms.loss_inputs import LossInputs
from components.algorithms.loss_registry import policy_loss
from components.config import LossConfig


def token_statistics(inputs: LossInputs, config: LossConfig) -> dict[str, Tensor]:
    """Sums over the tokens, in float64, by name; those without their input are left out.

    The ratio is the clipped one: for gspo that of the answer, once per token. `clip_frac` counts tokens whose gradient, or for
    cispo whose weight, a bound changes; a custom loss has none. `approx_kl` is k3 of new against old (J. Schulman, 2020).
    """
    with torch.no_grad():
        loss = policy_loss(config)
        ratios_N = loss.log_ratios(inputs).exp()
        beyond_N = (ratios_N > config.dual_clip) & (inputs.advantages_N < 0) if config.dual_clip is not None else None
        reference_N = inputs.reference_logprobs_N
        terms: dict[str, Tensor | None] = {
            "clip_frac": loss.clipped(ratios_N, inputs.advantages_N, config) if loss.clipped else None,
            "dual_clip_frac": beyond_N,
            "ratio_mean": ratios_N,
            "approx_kl": k3_kl(inputs.logprobs_N - inputs.old_logprobs_N),
            "entropy": inputs.entropies_N,
            "reference_kl": None
            if reference_N is None
            else kl_estimates(inputs.logprobs_N, reference_N, config.kl_estimator),
            "importance_weight": inputs.importance_weights_N,
        }
        return {name: term.double().sum() for name, term in terms.items() if term is not None}


def mismatch_statistics(trainer_logprobs_N: Tensor, sampler_logprobs_N: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """The mismatch of trainer and sampler on N tokens, in float64: sums by name, and the largest difference; zeros for none.

    `mismatch_kl` estimates KL(sampler || trainer), because the sampler drew the tokens. `mismatch_factor` is
    `exp(|difference|)`, the factor between a token's probabilities (NeMo-RL's token_mult_prob_error).
    """
    with torch.no_grad():
        differences_N = (trainer_logprobs_N - sampler_logprobs_N).double()
        sizes_N = differences_N.abs()
        sums = {"mismatch_kl": k3_kl(differences_N).sum(), "mismatch_factor": sizes_N.exp().sum()}
        return sums, sizes_N.max() if sizes_N.numel() else sizes_N.new_zeros(())


def means(sums: Mapping[str, float], num_tokens: int) -> dict[str, float]:
    """Sums as means over `num_tokens`."""
    return {name: value / max(num_tokens, 1) for name, value in sums.items()}
