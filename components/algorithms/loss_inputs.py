"""The interface of policy losses."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from components.config import LossConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """The inputs of the loss of N tokens, with all tokens of each completion.

    `old_logprobs_N` are those of the policy at the start of the update: the sampler's, or the trainer's if
    `importance_weights_N` correct for the sampler. `completions_N` is the index of each token's completion, `lengths_N` the
    length of that. `entropies_N` and `reference_logprobs_N` may be omitted if their coefficient is 0. `kept_N` is False for
    tokens that are counted and contribute no loss. `row_weights_N` are how much each token's completion counts beside the
    others; None: all the same.
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
    row_weights_N: Tensor | None = None


def token_log_ratios(inputs: LossInputs) -> Tensor:
    """The log of each token's own importance ratio (N,), with gradient."""
    return inputs.logprobs_N - inputs.old_logprobs_N


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """The policy's term of the loss, before it is weighted, regularised and aggregated.

    `losses` gives the loss of each token (N,), with gradient; `log_ratios` the log of the ratio that it clips; `clipped`, None
    if unknown, whether a bound acts on a token with some ratio and advantage.
    """

    losses: Callable[[LossInputs, LossConfig], Tensor]
    log_ratios: Callable[[LossInputs], Tensor] = token_log_ratios
    clipped: Callable[[Tensor, Tensor, LossConfig], Tensor] | None = None
