"""Estimates of the divergence between the policy and the reference, one per token (J. Schulman, "Approximating KL divergence",
2020), with `d = log pi - log ref` at the sampled token.

| name | value          | gradient               | which is, on average over the policy's own samples, that of |
|------|----------------|------------------------|-----------------------------------------------------------|
| k1   | d              | d * grad log pi        | KL(pi || ref)                                             |
| k2   | d^2 / 2        | d * grad log pi        | KL(pi || ref)                                             |
| k3   | exp(-d) - 1 + d| (1 - exp(-d)) grad log pi | KL(ref || pi)                                          |

The mean of k1 and k3 is KL(pi || ref), that of k2 only near the reference. An estimate with the right mean may have a wrong
gradient, because the samples depend on the policy ("On a few pitfalls in KL divergence gradient estimation for RL", arXiv
2506.09477): k1's own gradient is zero on average, so k1 uses the gradient of k2, which it has as a term of the reward. verl
calls that straight-through; TRL's use_bias_correction_kl multiplies k3 by rho instead.
"""

from typing import Literal

import torch
from torch import Tensor


def kl_estimates(logprobs_N: Tensor, reference_logprobs_N: Tensor, estimator: Literal["k1", "k2", "k3"]) -> Tensor:
    """The estimate of each token (N,), with the gradient above.

    **Example** d = -log 2: k1 -0.6931, k2 0.2402, k3 0.3069.
    """
    d_N = logprobs_N - reference_logprobs_N
    if estimator == "k3":
        return k3_kl(-d_N)
    squares_N = 0.5 * d_N.square()
    return squares_N if estimator == "k2" else squares_N + (d_N - squares_N).detach()


def k3_kl(log_ratios_N: Tensor) -> Tensor:
    """`exp(d) - d - 1` for each d: an unbiased, never negative estimate of KL(p || q) with d = log q - log p, samples of p.

    **Example** d = log 2: 2 - 0.6931 - 1 = 0.3069.
    """
    return torch.expm1(log_ratios_N) - log_ratios_N
