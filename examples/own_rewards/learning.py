"""An advantage and a policy loss."""

from statistics import fmean


def winners(episodes, rewards, algorithm):
    """Only candidates above their node's mean have an advantage. Axes of the rewards: episode, node, candidate."""
    return [[above_mean(rewards_K) for rewards_K in rewards_N_K] for rewards_N_K in rewards]


def above_mean(rewards_K):
    known = [reward for reward in rewards_K if reward is not None]
    mean = fmean(known) if known else 0.0
    return [0.0 if reward is None else max(reward - mean, 0.0) for reward in rewards_K]


def reinforce(inputs, config):
    """The loss of each token as a torch tensor: importance-weighted REINFORCE without clipping."""
    return -(inputs.logprobs_N - inputs.old_logprobs_N).exp() * inputs.advantages_N
