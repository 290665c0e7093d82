"""The loss of each completion token, and how those of a minibatch become one number.

    L = aggregate over t of [ w_t * policy_t + beta * kl_t - gamma * H_t ]

`policy_t` is one of three functions of `rho = exp(logprob - old)` and the advantage: PPO's clipped surrogate (here), the same
with one ratio an answer (`gspo`), or a clipped weight on the log-likelihood (`cispo`). w: `importance`; kl: `kl`; aggregate:
`aggregation`. Everything is a sum over tokens with weights that the whole minibatch decides, so that micro-batches, packing and
ranks change nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from components.algorithms.aggregation import MinibatchSize, aggregated
from components.algorithms.cispo import weighted_likelihood
from components.algorithms.gspo import answer_log_ratios
from components.algorithms.kl import kl_estimates
from components.config import LossConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What the loss of N tokens is made of.

    `old_logprobs_N` are those of the policy that the update started from: the sampler's own, or the trainer's where a weight
    corrects for the sampler (then `importance_weights_N` is set). `completions_N` numbers the completion of each token, and
    `lengths_N` says how many tokens it has; all of its tokens are here. `entropies_N` and `reference_logprobs_N` may be left
    out when their coefficient is 0. `kept_N` is False for tokens that count as tokens and add nothing.
    """

    logprobs_N: Tensor
    old_logprobs_N: Tensor
    advantages_N: Tensor
    completions_N: Tensor
    lengths_N: Tensor
    entropies_N: Tensor | None = None
    reference_logprobs_N: Tensor | None = None
    importance_weights_N: Tensor | None = None
    kept_N: Tensor | None = None


def minibatch_loss(inputs: LossInputs, config: LossConfig, *, size: MinibatchSize) -> Tensor:
    """This micro-batch's part of the loss of a minibatch of `size`; the parts of all micro-batches and ranks add up.

    **Example** token_mean, two tokens with ratio 1 and advantages 1 and -3, as one of two micro-batches of a minibatch of 4
    tokens: (-1 + 3) / 4 = 0.5.
    """
    return aggregated(token_losses(inputs, config), inputs.lengths_N, size, config)


def token_losses(inputs: LossInputs, config: LossConfig) -> Tensor:
    """The loss of each token (N,), before it is aggregated."""
    losses_N = policy_losses(inputs, config)
    if inputs.importance_weights_N is not None:
        losses_N = losses_N * inputs.importance_weights_N.detach()
    if config.kl_coefficient:
        assert inputs.reference_logprobs_N is not None, "kl_coefficient is set and there are no reference log-probs"
        kl_N = kl_estimates(inputs.logprobs_N, inputs.reference_logprobs_N, config.kl_estimator)
        losses_N = losses_N + config.kl_coefficient * kl_N
    if config.entropy_coefficient:
        assert inputs.entropies_N is not None, "entropy_coefficient is set and there are no entropies"
        losses_N = losses_N - config.entropy_coefficient * inputs.entropies_N
    if inputs.kept_N is not None:
        losses_N = torch.where(inputs.kept_N, losses_N, 0.0)
    return losses_N


def policy_losses(inputs: LossInputs, config: LossConfig) -> Tensor:
    """The policy's own term of each token (N,)."""
    log_ratios_N = policy_log_ratios(inputs, config)
    if config.policy_loss == "cispo":
        return weighted_likelihood(inputs.logprobs_N, log_ratios_N, inputs.advantages_N, config)
    return clipped_surrogate(log_ratios_N, inputs.advantages_N, config)


def policy_log_ratios(inputs: LossInputs, config: LossConfig) -> Tensor:
    """The log of the ratio that is clipped, for each token (N,): its own, or its answer's."""
    log_ratios_N = inputs.logprobs_N - inputs.old_logprobs_N
    if config.policy_loss == "gspo":
        return answer_log_ratios(log_ratios_N, inputs.completions_N, inputs.lengths_N)
    return log_ratios_N


def clipped_surrogate(log_ratios_N: Tensor, advantages_N: Tensor, config: LossConfig) -> Tensor:
    """`-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)` for each token, and for A < 0 at most `-dual_clip A`.

    PPO (arXiv 1707.06347, eq. 7); `clip_high` above `clip_low`: DAPO (arXiv 2503.14476); `dual_clip`: arXiv 1912.09729, which
    TRL calls delta and applies to both signs, to the same effect above 1 + clip_high.

    **Example** clip 0.2 and 0.2: rho 1.5 with A = 1 gives -1.2 and no gradient; rho 1.5 with A = -1 gives 1.5; rho 9 with
    A = -1 and dual_clip 3 gives 3 and no gradient.
    """
    ratios_N = log_ratios_N.exp()
    clipped_N = ratios_N.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
    losses_N = -torch.minimum(ratios_N * advantages_N, clipped_N * advantages_N)
    if config.dual_clip is None:
        return losses_N
    return torch.where(advantages_N < 0, torch.minimum(losses_N, -config.dual_clip * advantages_N), losses_N)
