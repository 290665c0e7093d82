"""What a policy gradient maximises in place of the return."""

import torch
from torch import Tensor


def clip_surrogate(ratios_N: Tensor, advantages_N: Tensor, *, low: float, high: float) -> Tensor:
    """`min(rho A, clip(rho, 1 - low, 1 + high) A)` for each of N actions: PPO (arXiv 1707.06347, eq. 7).

    **Example** low and high .2: rho 1.5 with A = 1 gives 1.2 and no gradient; rho 1.5 with A = -1 gives -1.5.
    """
    clipped_N = ratios_N.clamp(1.0 - low, 1.0 + high)
    return torch.minimum(ratios_N * advantages_N, clipped_N * advantages_N)
