"""The policy loss over completion tokens: clipped surrogate, k3 KL to a reference, entropy bonus, truncated importance
sampling.

Every term is a sum over the tokens of a micro-batch divided by a token count that the caller gives. With the count of the
whole minibatch, over all micro-batches and ranks, the parts add up to the token-mean of the minibatch, however it is cut.

    L = 1/|N| sum_t [ -w_t min(rho_t A_t, clip(rho_t, 1 - clip_low, 1 + clip_high) A_t) + beta k3_t - gamma H_t ]

`rho = exp(logprob - old)`: PPO (arXiv 1707.06347, eq. 7); `clip_high` above `clip_low` and the token-mean: DAPO (arXiv
2503.14476, eq. 8 and 12); k3: J. Schulman, "Approximating KL divergence" (2020); w: truncated importance sampling (F. Yao et
al., "Your efficient RL framework secretly brings you off-policy RL training", 2025).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from components.config import LossConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What the loss of N tokens is made of.

    `old_logprobs_N` are those of the policy that the update started from: the sampler's own, or the trainer's where a weight
    corrects for the sampler (then `importance_weights_N` is set). `entropies_N` and `reference_logprobs_N` may be left out
    when their coefficient is 0.
    """

    logprobs_N: Tensor
    old_logprobs_N: Tensor
    advantages_N: Tensor
    entropies_N: Tensor | None = None
    reference_logprobs_N: Tensor | None = None
    importance_weights_N: Tensor | None = None


def token_losses(inputs: LossInputs, config: LossConfig) -> Tensor:
    """The loss of each token (N,), before any mean."""
    losses_N = clipped_surrogate(inputs.logprobs_N - inputs.old_logprobs_N, inputs.advantages_N, config)
    if inputs.importance_weights_N is not None:
        losses_N = losses_N * inputs.importance_weights_N.detach()
    if config.kl_coefficient:
        assert inputs.reference_logprobs_N is not None, "kl_coefficient is set and there are no reference log-probs"
        losses_N = losses_N + config.kl_coefficient * k3_kl(inputs.reference_logprobs_N - inputs.logprobs_N)
    if config.entropy_coefficient:
        assert inputs.entropies_N is not None, "entropy_coefficient is set and there are no entropies"
        losses_N = losses_N - config.entropy_coefficient * inputs.entropies_N
    return losses_N


def token_mean_loss(inputs: LossInputs, config: LossConfig, *, num_tokens: int) -> Tensor:
    """This micro-batch's part of the token-mean over `num_tokens`, the completion tokens of the whole minibatch.

    **Example** two tokens with ratio 1 and advantages 1 and -3, as one of two micro-batches of a minibatch of 4 tokens:
    (-1 + 3) / 4 = 0.5.
    """
    return token_losses(inputs, config).sum() / max(num_tokens, 1)


def clipped_surrogate(log_ratios_N: Tensor, advantages_N: Tensor, config: LossConfig) -> Tensor:
    """`-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)` for each token.

    **Example** clip 0.2 and 0.2: rho 1.5 with A = 1 gives -1.2 and no gradient; rho 1.5 with A = -1 gives 1.5.
    """
    ratios_N = log_ratios_N.exp()
    clipped_N = ratios_N.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
    return -torch.minimum(ratios_N * advantages_N, clipped_N * advantages_N)


def k3_kl(log_ratios_N: Tensor) -> Tensor:
    """`exp(d) - d - 1` for each d: an unbiased, never negative estimate of KL(p || q) with d = log q - log p, samples of p.

    **Example** d = log 2: 2 - 0.6931 - 1 = 0.3069.
    """
    return torch.expm1(log_ratios_N) - log_ratios_N


def truncated_importance_weights(trainer_logprobs_N: Tensor, sampler_logprobs_N: Tensor, *, cap: float) -> Tensor:
    """`min(exp(trainer - sampler), cap)` without gradient: corrects for a sampler that rounds differently."""
    return (trainer_logprobs_N - sampler_logprobs_N).detach().exp().clamp(max=cap)
