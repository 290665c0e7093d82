"""Importance weights that correct for samples from another policy: an engine that rounds differently, or older weights.

Decoupled PPO (AReaL, arXiv 2505.24298, eq. 5): the clipped ratio is against the trainer's log-probs at the start of the
update, and `w = pi_start / pi_sampler`, without gradient, corrects for the difference to the sampler. Truncation: F. Yao et
al., "Your efficient RL framework secretly brings you off-policy RL training" (2025); capping bounds the variance and biases
towards the sampler. The weight of the whole answer is unbiased but drifts with length, so that it needs a higher cap. verl and
TRL bound the exponent and mask instead of capping in some modes; ours are only capped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.config import LossConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The weights of all N tokens of a batch, and their metrics.

    `kept_N` is False for the tokens of vetoed answers, whose weight is 0. `metrics` has `importance_ess`, the effective sample
    size (sum w)^2 / (n sum w^2) over the n weights (Kish, 1965); `importance_capped_frac`, the fraction of weights at the cap;
    and with a veto `importance_veto_frac`, the fraction of vetoed answers.
    """

    weights_N: Tensor
    kept_N: Tensor
    metrics: dict[str, float]


def correction(
    trainer_logprobs_N: Tensor, sampler_logprobs_N: Tensor, lengths_B: Sequence[int], config: LossConfig
) -> Correction:
    """The correction of B concatenated completions of `lengths_B` tokens.

    **Example** cap 2, ratios (4, .5) and (1,): by token (2, .5) and (1), by sequence (2, 2) and (1); with a veto of .6 the
    first answer's are (0, 0).
    """
    assert config.importance_cap is not None, "importance weights without importance_cap"
    device = trainer_logprobs_N.device
    lengths = torch.tensor(lengths_B, dtype=torch.int64, device=device)
    completions_N = torch.repeat_interleave(torch.arange(len(lengths_B), device=device), lengths)
    log_ratios_N = (trainer_logprobs_N - sampler_logprobs_N).detach().double()
    kept_B = _kept(log_ratios_N, completions_N, len(lengths_B), config)
    if config.importance_level == "token":
        log_weights, kept = log_ratios_N, kept_B[completions_N]
    else:
        log_weights, kept = log_ratios_N.new_zeros(len(lengths_B)).index_add(0, completions_N, log_ratios_N), kept_B
    cap = config.importance_cap
    # Capped before exp, because the product over a long answer overflows.
    weights = log_weights.clamp(max=math.log(cap)).exp() * kept
    return Correction(
        weights_N=(weights if config.importance_level == "token" else weights[completions_N]).float(),
        kept_N=kept_B[completions_N],
        metrics={
            "importance_ess": effective_sample_size(weights),
            "importance_capped_frac": float((log_weights > math.log(cap)).double().mean()),
            **({} if config.importance_veto is None else {"importance_veto_frac": float((~kept_B).double().mean())}),
        },
    )


def effective_sample_size(weights: Tensor) -> float:
    """`(sum w)^2 / (n sum w^2)`; 0 if all weights are 0. **Example** (1, 1, 1, 1): 1; (1, 0, 0, 0): .25."""
    squares = float(weights.square().sum()) * weights.numel()
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _kept(log_ratios_N: Tensor, completions_N: Tensor, num_completions: int, config: LossConfig) -> Tensor:
    """The completions without a token below the veto (B,)."""
    if config.importance_veto is None:
        return log_ratios_N.new_ones(num_completions, dtype=torch.bool)
    below_N = (log_ratios_N < math.log(config.importance_veto)).long()
    return below_N.new_zeros(num_completions).index_add(0, completions_N, below_N) == 0
