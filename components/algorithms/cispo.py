"""CISPO: the importance ratio is a clipped weight without gradient, so that no token loses its gradient (MiniMax-M1, arXiv
2506.13585, eq. 4 and 5).

`-sg[clip(rho, 1 - clip_low, 1 + clip_high)] A log pi`. The paper sets no lower bound (`clip_low` 1) and a high upper one. The
weight is at most 1 + clip_high here and in the paper, but at most epsilon_high in TRL.
"""

from torch import Tensor

from components.algorithms.loss_inputs import LossInputs, PolicyLoss, token_log_ratios
from components.config import LossConfig


def compute_cispo_loss(inputs: LossInputs, config: LossConfig) -> Tensor:
    """The loss of each token (N,).

    **Example** clip_high 4, a token of probability .5, ratio 9 and advantage 1: -5 * log .5 = 3.466, its slope in the
    log-probability is -5.
    """
    weights_N = token_log_ratios(inputs).detach().exp().clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
    return -weights_N * inputs.advantages_N * inputs.logprobs_N


def _bound(ratios_N: Tensor, advantages_N: Tensor, config: LossConfig) -> Tensor:
    """The tokens with a clipped weight (N,); none loses its gradient."""
    return (ratios_N > 1.0 + config.clip_high) | (ratios_N < 1.0 - config.clip_low)


CISPO = PolicyLoss(losses=compute_cispo_loss, clipped=_bound)
