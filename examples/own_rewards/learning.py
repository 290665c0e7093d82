"""How rewards become advantages, and advantages a loss."""

from statistics import fmean


def winners(episodes, rewards, algorithm):
    """Axes of the rewards (episode, node, candidate): those above their node's mean teach, the others are left alone."""
    return [[above_mean(rewards_K) for rewards_K in rewards_N_K] for rewards_N_K in rewards]


def above_mean(rewards_K):
    known = [reward for reward in rewards_K if reward is not None]
    mean = fmean(known) if known else 0.0
    return [0.0 if reward is None else max(reward - mean, 0.0) for reward in rewards_K]


def reinforce(inputs, config):
    """The loss of each token, as a torch tensor: REINFORCE, importance-weighted and without a clip."""
    return -(inputs.logprobs_N - inputs.old_logprobs_N).exp() * inputs.advantages_N
