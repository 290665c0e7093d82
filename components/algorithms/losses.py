"""The loss of each completion token, and its aggregation over a minibatch.

    L = aggregate over t of [ w_t * policy_t + beta * kl_t - gamma * H_t ]

`policy_t` is a function of `rho = exp(logprob - old)` and the advantage, named by `loss.policy_loss`: PPO's clipped surrogate
(`clip`), the same with one ratio per answer (`gspo`), a clipped weight on the log-likelihood (`cispo`), or a custom one. w:
`importance`; kl: `kl`. Aggregation over B completions of lengths n_i, N = sum n_i tokens:

| mode          | loss                                  | elsewhere                                             |
|---------------|---------------------------------------|-------------------------------------------------------|
| token_mean    | 1/N sum_i sum_t l                     | DAPO (arXiv 2503.14476, eq. 12); TRL dapo; verl token-mean |
| sequence_mean | 1/B sum_i 1/n_i sum_t l               | GRPO (arXiv 2402.03300), GSPO; TRL grpo               |
| sequence_sum  | 1/B sum_i sum_t l                     | REINFORCE, RLOO; verl seq-mean-token-sum              |
| fixed_length  | 1/(B fixed_length) sum_i sum_t l      | Dr. GRPO (arXiv 2503.20783); TRL dr_grpo              |

Each is a sum over tokens with weights that depend on the whole minibatch, so that micro-batches, packing and ranks change
nothing. `loss.average_over` selects the answers that B and N count, and under session weighs them so that all episodes count
the same. verl without its scale factor takes the padded width, which changes with the batch, as the fixed length.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from components.algorithms.kl import kl_estimates
from components.algorithms.loss_inputs import LossInputs
from components.algorithms.loss_registry import policy_loss
from components.config import LossConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MinibatchSize:
    """The size of an optimizer step over all micro-batches and ranks; completions without a token do not count."""

    num_completions: int
    num_tokens: int


def aggregate_losses(losses_N: Tensor, lengths_N: Tensor, size: MinibatchSize, config: LossConfig) -> Tensor:
    """The contribution of one micro-batch to the loss; `lengths_N` is the length of each token's completion.

    **Example** completions with token losses (1, 3) and (5,): token_mean 3, sequence_mean 3.5, sequence_sum 4.5, fixed_length
    10 gives 0.45.
    """
    num_completions = max(size.num_completions, 1)
    if config.aggregation == "token_mean":
        return losses_N.sum() / max(size.num_tokens, 1)
    if config.aggregation == "sequence_mean":
        return (losses_N / lengths_N).sum() / num_completions
    if config.aggregation == "sequence_sum":
        return losses_N.sum() / num_completions
    assert config.fixed_length is not None, "aggregation fixed_length without its length"
    return losses_N.sum() / (num_completions * config.fixed_length)


def minibatch_loss(inputs: LossInputs, config: LossConfig, *, size: MinibatchSize) -> Tensor:
    """This micro-batch's part of the loss of a minibatch of `size`; the parts of all micro-batches and ranks add up.

    **Example** token_mean, two tokens with ratio 1 and advantages 1 and -3, as one of two micro-batches of a minibatch of 4
    tokens: (-1 + 3) / 4 = 0.5.
    """
    return aggregate_losses(token_losses(inputs, config), inputs.lengths_N, size, config)


def token_losses(inputs: LossInputs, config: LossConfig) -> Tensor:
    """The loss of each token (N,), before aggregation."""
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
    if inputs.row_weights_N is not None:
        losses_N = losses_N * inputs.row_weights_N
    return losses_N
