"""GSPO: one importance ratio for the whole answer ("Group Sequence Policy Optimization", arXiv 2507.18071, eq. 5 to 7).

`s = (pi(y) / pi_old(y))^(1 / |y|) = exp(mean_t log rho_t)`, clipped like PPO's ratio. Each token of the answer gets the
surrogate of s, and `sequence_mean` averages them to one number per answer. s stays near 1, hence the paper's clips of 3e-4 and
4e-4. verl and the paper's GSPO-token pass the gradient through each token's own ratio, which is the same gradient if the
advantages of an answer are equal, as they are here.
"""

from torch import Tensor

from components.algorithms.clip import compute_clipped_surrogate, mask_clipped
from components.algorithms.loss_inputs import LossInputs, PolicyLoss, token_log_ratios
from components.config import LossConfig


def answer_log_ratios(log_ratios_N: Tensor, completions_N: Tensor, lengths_N: Tensor) -> Tensor:
    """The mean log-ratio of each token's answer (N,), with gradient.

    **Example** log-ratios (.1, .3) of one answer and (.5,) of another: (.2, .2, .5).
    """
    sums_N = log_ratios_N.new_zeros(log_ratios_N.shape).index_add(0, completions_N, log_ratios_N)
    return sums_N[completions_N] / lengths_N


def _log_ratios(inputs: LossInputs) -> Tensor:
    return answer_log_ratios(token_log_ratios(inputs), inputs.completions_N, inputs.lengths_N)


def _losses(inputs: LossInputs, config: LossConfig) -> Tensor:
    return compute_clipped_surrogate(_log_ratios(inputs), inputs.advantages_N, config)


GSPO = PolicyLoss(losses=_losses, log_ratios=_log_ratios, clipped=mask_clipped)
