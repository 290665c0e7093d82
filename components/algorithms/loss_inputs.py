"""What a policy loss is made of and what it is: the border between the losses and what surrounds them."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

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


def token_log_ratios(inputs: LossInputs) -> Tensor:
    """The log of each token's own importance ratio (N,), with gradient."""
    return inputs.logprobs_N - inputs.old_logprobs_N


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """The policy's own term of the loss, before it is weighted, regularised and aggregated.

    `losses` gives the loss of each token (N,), with gradient. `log_ratios` is the log of the ratio that it clips, and `clipped`
    says of each token, by its ratio and advantage, whether a bound acts on it; None where unknown.
    """

    losses: Callable[[LossInputs, LossConfig], Tensor]
    log_ratios: Callable[[LossInputs], Tensor] = token_log_ratios
    clipped: Callable[[Tensor, Tensor, LossConfig], Tensor] | None = None
