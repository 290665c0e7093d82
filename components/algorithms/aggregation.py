"""How token losses become the loss of a minibatch. B completions of lengths n_i, N = sum n_i tokens.

| mode          | loss                                  | elsewhere                                             |
|---------------|---------------------------------------|-------------------------------------------------------|
| token_mean    | 1/N sum_i sum_t l                     | DAPO (arXiv 2503.14476, eq. 12); TRL dapo; verl token-mean |
| sequence_mean | 1/B sum_i 1/n_i sum_t l               | GRPO (arXiv 2402.03300), GSPO; TRL grpo               |
| sequence_sum  | 1/B sum_i sum_t l                     | REINFORCE, RLOO; verl seq-mean-token-sum              |
| fixed_length  | 1/(B fixed_length) sum_i sum_t l      | Dr. GRPO (arXiv 2503.20783); TRL dr_grpo              |

Each is a sum over tokens with a weight that the minibatch decides, never the micro-batch: the parts of micro-batches and ranks
add up to the same number however it is cut. `loss.means_over` says which answers B and N count. `fixed_length` is a constant of
the run; verl without its scale factor takes the padded width, which changes with the batch.
"""

from dataclasses import dataclass

from torch import Tensor

from components.config import LossConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MinibatchSize:
    """What one optimizer step learns from, over all micro-batches and ranks. Completions without a token do not count."""

    num_completions: int
    num_tokens: int


def aggregated(losses_N: Tensor, lengths_N: Tensor, size: MinibatchSize, config: LossConfig) -> Tensor:
    """The part that the tokens of one micro-batch have in the loss; `lengths_N` is the length of each token's completion.

    **Example** completions with token losses (1, 3) and (5,): token_mean 3, sequence_mean 3.5, sequence_sum 4.5, fixed_length
    10 gives 0.45.
    """
    num_completions = max(size.num_completions, 1)
    if config.aggregation == "token_mean":
        return losses_N.sum() / max(size.num_tokens, 1)
    if config.aggregation == "sequence_mean":
        return (losses_N / lengths_N).sum() / num_completions
    if config.aggregation == "sequence_sum":
        return losses_N.sum() / num_completions
    assert config.fixed_length is not None, "aggregation fixed_length without its length"
    return losses_N.sum() / (num_completions * config.fixed_length)
