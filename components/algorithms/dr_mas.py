"""Dr. MAS: all actions of one agent on one problem are a group, over all turns and episodes (arXiv:2602.08847).

`A = (R - mean_agent) / (std_agent + epsilon)`: each agent is compared with itself, so that an agent which acts more often or
earns on another scale does not set the others' baseline. R is what the action earned: in the paper its episode's return; in a
tree, where most candidates end no episode, the candidate's own reward. The reference code takes the sample's deviation (n - 1)
and 1e-6; here they are those of `normalisation`.
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, action_rewards, places
from components.algorithms.normalisation import advantages
from components.config import AlgorithmConfig
from components.schema import Episode


def compare_agents(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards.

    **Example** an agent acts twice in an episode that returns 1 and once in one that returns 0: mean 2/3, so that without the
    deviation its actions get (1/3, 1/3) and (-2/3).
    """
    earned_E_N_K = action_rewards(episodes, rewards_E_N_K)
    members: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for e, n, k, problem_id, agent in places(episodes):
        members.setdefault((problem_id, agent), []).append((e, n, k))
    compared = advantages([[earned_E_N_K[e][n][k] for e, n, k in group] for group in members.values()], algorithm)
    advantages_E_N_K = [[[0.0] * len(rewards_K) for rewards_K in rewards_N_K] for rewards_N_K in rewards_E_N_K]
    for group, values in zip(members.values(), compared, strict=True):
        for (e, n, k), value in zip(group, values, strict=True):
            advantages_E_N_K[e][n][k] = value
    return [tuple(tuple(values_K) for values_K in values_N_K) for values_N_K in advantages_E_N_K]
