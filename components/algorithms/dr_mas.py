"""Dr. MAS: all actions of one agent on one problem are a group, over all turns and episodes (arXiv:2602.08847).

`A = (R - mean_agent) / (std_agent + epsilon)`: each agent is compared with itself, so that an agent that acts more often or
earns on another scale does not set the others' baseline. R is the episode's return, as in the paper, or in a tree the
candidate's own reward. The reference code takes the sample's deviation (n - 1) and 1e-6; ours are those of `normalisation`.
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, action_rewards, compare_equal_keys, flatten, unflatten
from components.config import AlgorithmConfig
from components.schema import Episode


def compare_agents(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards.

    **Example** an agent acts twice in an episode with return 1 and once in one with return 0: without the deviation its
    actions get (1/3, 1/3) and (-2/3).
    """
    agents = [
        (episode.problem.problem_id, node.group.agent)
        for episode in episodes
        for node in episode.nodes
        for _ in node.candidates
    ]
    earned = flatten(action_rewards(episodes, rewards_E_N_K))
    return unflatten(compare_equal_keys(earned, agents, algorithm), rewards_E_N_K)
