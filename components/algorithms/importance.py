"""Importance weights that correct for samples from another policy: an engine that rounds differently, or older weights.

Decoupled PPO (AReaL, arXiv 2505.24298, eq. 5): the clipped ratio is against the trainer's log-probs at the start of the
update, and `w = pi_start / pi_sampler`, without gradient, corrects for the difference to the sampler. Truncation: F. Yao et
al., "Your efficient RL framework secretly brings you off-policy RL training" (2025); capping bounds the variance and biases
towards the sampler. The weight of the whole answer is unbiased but drifts with length, so that it needs a higher cap. verl and
TRL bound the exponent and mask instead of capping in some modes; ours are only capped.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from components.config import LossConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The weights of N tokens, and the sums from which `correction_metrics` of a batch are computed.

    `kept_N` is False for the tokens of vetoed answers, whose weight is 0.
    """

    weights_N: Tensor
    kept_N: Tensor
    sums: Mapping[str, Tensor]


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
    kept_B = _find_kept(log_ratios_N, completions_N, len(lengths_B), config)
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
        sums={
            "weights": weights.sum(),
            "squares": weights.square().sum(),
            "number": weights.new_tensor(weights.numel()),
            "capped": (log_weights > math.log(cap)).double().sum(),
            **(
                {}
                if config.importance_veto is None
                else {"vetoed": (~kept_B).double().sum(), "answers": weights.new_tensor(len(lengths_B))}
            ),
        },
    )


def correction_metrics(sums: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a batch, from the sums of its corrections.

    `importance_ess` is the effective sample size (sum w)^2 / (n sum w^2) over the n weights (Kish, 1965), 0 if all are 0;
    `importance_capped_frac` the fraction of weights at the cap; with a veto `importance_veto_frac` that of vetoed answers.

    **Example** weights (1, 1, 1, 1): an effective sample size of 1; (1, 0, 0, 0): .25.
    """
    squares = sums["squares"] * sums["number"]
    vetoed = {"importance_veto_frac": sums["vetoed"] / sums["answers"]} if "vetoed" in sums else {}
    return {
        "importance_ess": sums["weights"] ** 2 / squares if squares else 0.0,
        "importance_capped_frac": sums["capped"] / sums["number"],
        **vetoed,
    }


def _find_kept(log_ratios_N: Tensor, completions_N: Tensor, num_completions: int, config: LossConfig) -> Tensor:
    """The completions without a token below the veto (B,)."""
    if config.importance_veto is None:
        return log_ratios_N.new_ones(num_completions, dtype=torch.bool)
    below_N = (log_ratios_N < math.log(config.importance_veto)).long()
    return below_N.new_zeros(num_completions).index_add(0, completions_N, below_N) == 0
