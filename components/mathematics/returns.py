"""Discounted returns."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from components.config.bounds import check_share


def discount_returns(
    rewards_T_N: Sequence[Sequence[float]] | NDArray[np.float64], discount: float
) -> NDArray[np.float64]:
    """The return of each of N at each step, [T, N]: `G_t = r_t + discount G_(t+1)`. Raises ConfigurationError for a discount
    outside of 0 to 1.

    **Example** rewards (1, 0, 4) of one member at discount .5: (2, 2, 4).
    """
    check_share("discount", discount)
    returns_T_N = np.array(rewards_T_N, dtype=np.float64)
    for step in range(len(returns_T_N) - 2, -1, -1):
        returns_T_N[step] += discount * returns_T_N[step + 1]
    return returns_T_N
