"""FedProx (arXiv 1812.06127): a learner is held near the weights with which its round began."""

from collections.abc import Mapping

import torch
from torch import Tensor


def proximal_term(weights: Mapping[str, Tensor], anchor: Mapping[str, Tensor], mu: float) -> Tensor:
    """`mu / 2 ||w - w_anchor||^2`, a scalar in float32 whose gradient is `mu (w - w_anchor)`; equation 2 of the paper.

    **Example** w = (1, 2) against (0, 0) at mu .1: .25.
    """
    assert weights.keys() == anchor.keys(), f"weights {sorted(weights)}, anchor {sorted(anchor)}"
    squares = [(weights[name].float() - anchor[name].float()).square().sum() for name in sorted(weights)]
    return mu / 2 * torch.stack(squares).sum()
