"""The loss of each completion token, and how those of a minibatch become one number.

    L = aggregate over t of [ w_t * policy_t + beta * kl_t - gamma * H_t ]

`policy_t` is a function of `rho = exp(logprob - old)` and the advantage, named by `loss.policy_loss`: PPO's clipped surrogate
(`clip`), the same with one ratio per answer (`gspo`), a clipped weight on the log-likelihood (`cispo`), or one's own. w:
`importance`; kl: `kl`; aggregate: `aggregation`. Everything is a sum over tokens with weights that the whole minibatch decides,
so that micro-batches, packing and ranks change nothing.
"""

import torch
from torch import Tensor

from components.algorithms.aggregation import MinibatchSize, aggregated
from components.algorithms.kl import kl_estimates
from components.algorithms.loss_inputs import LossInputs
from components.algorithms.loss_registry import policy_loss
from components.config import LossConfig


def minibatch_loss(inputs: LossInputs, config: LossConfig, *, size: MinibatchSize) -> Tensor:
    """This micro-batch's part of the loss of a minibatch of `size`; the parts of all micro-batches and ranks add up.

    **Example** token_mean, two tokens with ratio 1 and advantages 1 and -3, as one of two micro-batches of a minibatch of 4
    tokens: (-1 + 3) / 4 = 0.5.
    """
    return aggregated(token_losses(inputs, config), inputs.lengths_N, size, config)


def token_losses(inputs: LossInputs, config: LossConfig) -> Tensor:
    """The loss of each token (N,), before it is aggregated."""
    losses_N = policy_loss(config).losses(inputs, config)
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
