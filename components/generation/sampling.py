"""Drawing tokens: a counter-based stream of uniforms for each candidate, and the inverse of the cumulative distribution.

Nothing here has state. A candidate's token at position t depends on its seed, on t and on its logits alone, so it is the
same whichever other candidates share the forward batch.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def uniforms(seeds_N: Sequence[int], num_tokens: int) -> npt.NDArray[np.float64]:
    """Uniforms in [0, 1) of shape [N, num_tokens]; row n is the splitmix64 stream that starts at `seeds_N[n]`.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, with 53 bits kept.

    **Example** `uniforms([0], 1)` is `[[0.8833108082136426]]`: the stream of state 0 begins with 0xE220A8397B1DCDAF.
    """
    counters_T = np.arange(1, num_tokens + 1, dtype=np.uint64)
    seeds = np.asarray([seed % 2**64 for seed in seeds_N], dtype=np.uint64)
    z = seeds[:, None] + counters_T[None, :] * _GAMMA
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z ^= z >> np.uint64(31)
    unit_N_T: npt.NDArray[np.float64] = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return unit_N_T


def tempered_logprobs(logits_M_V: torch.Tensor, temperatures_M: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [M, V] in float32 of `softmax(logits / temperature)`; a temperature of 0 leaves the logits plain."""
    divisors_M = torch.where(temperatures_M == 0, 1.0, temperatures_M)
    return torch.log_softmax(logits_M_V.float() / divisors_M[:, None], dim=-1)


def drawn(logprobs_M_V: torch.Tensor, uniforms_M: torch.Tensor, greedy_M: torch.Tensor) -> torch.Tensor:
    """Token ids [M]: the first id whose cumulative probability exceeds the uniform, or the likeliest id where greedy.

    The sum runs in float64 and is rescaled by its own total, so a token of probability 0 is never drawn.

    **Example** probabilities [.25, .75]: a uniform of .2 gives id 0, one of .25 gives id 1.
    """
    if bool(greedy_M.all()):
        return logprobs_M_V.argmax(dim=-1)
    cumulative_M_V = logprobs_M_V.exp().cumsum(dim=-1, dtype=torch.float64)
    targets_M = uniforms_M * cumulative_M_V[:, -1]
    sampled_M = torch.searchsorted(cumulative_M_V, targets_M[:, None], right=True)[:, 0]
    sampled_M = sampled_M.clamp_(max=logprobs_M_V.shape[-1] - 1)
    if bool(greedy_M.any()):
        sampled_M = torch.where(greedy_M, logprobs_M_V.argmax(dim=-1), sampled_M)
    return sampled_M
