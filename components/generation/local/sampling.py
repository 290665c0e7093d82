"""Sampling tokens: a counter-based stream of uniforms per candidate, and the inverse of the cumulative distribution.

Stateless: a candidate's token at position t depends only on its seed, t and its logits, never on the rest of the batch.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import pad

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BLOCK = 256
_BELOW_ONE = 1 - 2.0**-53


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


def temper_logprobs(logits_M_V: torch.Tensor, temperatures_M: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [M, V] in float32 of `softmax(logits / temperature)`; temperature 0 leaves the logits unscaled."""
    divisors_M = torch.where(temperatures_M == 0, 1.0, temperatures_M)
    return torch.log_softmax(logits_M_V.float() / divisors_M[:, None], dim=-1)


def cut_tail(logprobs_M_V: torch.Tensor, top_ps_M: torch.Tensor) -> torch.Tensor:
    """Log-probabilities with minus infinity outside of each row's nucleus: the fewest most likely ids that have probability
    `top_p` together.

    Holtzman et al., "The curious case of neural text degeneration", ICLR 2020.

    **Example** probabilities [.2, .5, .3] and top_p .6 leave the ids 1 and 2.
    """
    sorted_M_V, order_M_V = logprobs_M_V.sort(dim=-1, descending=True, stable=True)
    weights_M_V = sorted_M_V.exp().double()
    before_M_V = weights_M_V.cumsum(dim=-1) - weights_M_V
    kept_M_V = sorted_M_V.masked_fill(before_M_V >= top_ps_M[:, None], -torch.inf)
    return torch.empty_like(logprobs_M_V).scatter(1, order_M_V, kept_M_V)


def draw_tokens(
    logprobs_M_V: torch.Tensor, uniforms_M: torch.Tensor, greedy_M: torch.Tensor | None = None
) -> torch.Tensor:
    """Token ids [M]: the first id whose cumulative probability exceeds the uniform, or the most likely id where greedy.

    A large vocabulary is searched in two levels: the block, then the id in it. Sums are in float64 and scaled by their own
    total, so a token of probability 0 is never drawn.

    **Example** probabilities [.25, .75]: a uniform of .2 gives id 0, one of .25 gives id 1.
    """
    weights_M_V = logprobs_M_V.exp()
    if weights_M_V.shape[-1] <= _BLOCK:
        sampled_M = _interval(weights_M_V, uniforms_M)[0][:, 0]
    else:
        sampled_M = _by_blocks(weights_M_V, uniforms_M)
    return sampled_M if greedy_M is None else torch.where(greedy_M, logprobs_M_V.argmax(dim=-1), sampled_M)


def _by_blocks(weights_M_V: torch.Tensor, uniforms_M: torch.Tensor) -> torch.Tensor:
    num_candidates, num_tokens = weights_M_V.shape
    blocks_M_J_B = pad(weights_M_V, (0, -num_tokens % _BLOCK)).view(num_candidates, -1, _BLOCK)
    masses_M_J = blocks_M_J_B.sum(dim=-1)
    block_M_1, above_M_1 = _interval(masses_M_J, uniforms_M)
    within_M_1 = (1 - above_M_1 / masses_M_J.gather(1, block_M_1)).clamp(0, _BELOW_ONE)
    chosen_M_B = blocks_M_J_B.gather(1, block_M_1[:, :, None].expand(-1, 1, _BLOCK))[:, 0]
    return (block_M_1 * _BLOCK + _interval(chosen_M_B, within_M_1[:, 0])[0])[:, 0]


def _interval(lengths_M_X: torch.Tensor, uniforms_M: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The index [M, 1] of the adjacent interval that each uniform falls into, and its distance to the interval's end."""
    ends_M_X = lengths_M_X.cumsum(dim=-1, dtype=torch.float64)
    targets_M_1 = uniforms_M[:, None] * ends_M_X[:, -1:]
    index_M_1 = torch.searchsorted(ends_M_X, targets_M_1, right=True).clamp_(max=lengths_M_X.shape[-1] - 1)
    return index_M_1, ends_M_X.gather(1, index_M_1) - targets_M_1
