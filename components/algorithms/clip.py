"""PPO's clipped surrogate, one ratio per token: the default policy loss."""

import torch
from torch import Tensor

from components.algorithms.loss_inputs import LossInputs, PolicyLoss, token_log_ratios
from components.config import LossConfig
from components.mathematics.surrogates import clip_surrogate


def compute_clipped_surrogate(log_ratios_N: Tensor, advantages_N: Tensor, config: LossConfig) -> Tensor:
    """`-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)` for each token, and for A < 0 at most `-dual_clip A`.

    PPO (arXiv 1707.06347, eq. 7); `clip_high` above `clip_low`: DAPO (arXiv 2503.14476); `dual_clip`: arXiv 1912.09729, which
    TRL calls delta and applies to both signs, to the same effect above 1 + clip_high.

    **Example** clip 0.2 and 0.2: rho 1.5 with A = 1 gives -1.2 and no gradient; rho 1.5 with A = -1 gives 1.5; rho 9 with
    A = -1 and dual_clip 3 gives 3 and no gradient.
    """
    losses_N = -clip_surrogate(log_ratios_N.exp(), advantages_N, low=config.clip_low, high=config.clip_high)
    if config.dual_clip is None:
        return losses_N
    return torch.where(advantages_N < 0, torch.minimum(losses_N, -config.dual_clip * advantages_N), losses_N)


def mask_clipped(ratios_N: Tensor, advantages_N: Tensor, config: LossConfig) -> Tensor:
    """The tokens without gradient (N,): their ratio is beyond a bound and their advantage pushes it further out."""
    too_high_N, too_low_N = ratios_N > 1.0 + config.clip_high, ratios_N < 1.0 - config.clip_low
    clipped_N = (too_high_N & (advantages_N > 0)) | (too_low_N & (advantages_N < 0))
    if config.dual_clip is not None:
        clipped_N = clipped_N | ((ratios_N > config.dual_clip) & (advantages_N < 0))
    return clipped_N


def _losses(inputs: LossInputs, config: LossConfig) -> Tensor:
    return compute_clipped_surrogate(token_log_ratios(inputs), inputs.advantages_N, config)


CLIP = PolicyLoss(losses=_losses, clipped=mask_clipped)
