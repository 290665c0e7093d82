"""GiGPO: whole episodes are compared, and besides the actions that were taken in one state (arXiv:2505.10978).

`A = A_episode + step_weight * A_step` (eq. 8). A_episode is that of grpo (eq. 3). A_step compares the step returns of all
actions of one agent with equal prompts on one problem (eq. 6 and 7), whatever their episode and turn: what the agent sees is
its state. The step return is the discounted sum of the rewards from the step on (eq. 5); because an episode earns at its end
alone, that is `step_discount ** turns_left * return` here. Both terms have the baseline and the deviation of `algorithm`.

The paper sets `step_weight` 1 and `step_discount` .95. The authors' code weighs an episode in the baseline of the first term by
its number of steps, takes the sample's deviation, or none, and adds 1e-6.
"""

from collections.abc import Sequence

from components.algorithms.grouping import Advantages, Rewards, compare_equal_keys, episode_returns, flatten, unflatten
from components.algorithms.grpo import grpo_advantages
from components.config import AlgorithmConfig, Gigpo
from components.schema import Episode


def gigpo_advantages(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards, which are those of whole episodes: one candidate per node.

    **Example** weight 1, discount .5, nothing divided: two episodes begin in one state and earn 1 after 2 turns and after 1.
    Equal returns compare to 0; the step returns .5 and 1 of the first actions make A -.25 and .25; an action that is alone in
    its state gets 0.
    """
    assert isinstance(algorithm, Gigpo), f"gigpo without its fields: {algorithm}"
    weight, discount = algorithm.step_weight, algorithm.step_discount
    states = [
        (episode.problem.problem_id, node.group.agent, node.prompt_tokens)
        for episode in episodes
        for node in episode.nodes
        for _ in node.candidates
    ]
    by_step = compare_equal_keys(flatten(step_returns(episodes, rewards_E_N_K, discount)), states, algorithm)
    by_episode = flatten(grpo_advantages(episodes, rewards_E_N_K, algorithm))
    pairs = zip(by_episode, by_step, strict=True)
    return unflatten((None if e is None or s is None else e + weight * s for e, s in pairs), rewards_E_N_K)


def step_returns(episodes: Sequence[Episode], rewards_E_N_K: Rewards, discount: float) -> Rewards:
    """The return of an episode at each of its actions, discounted by the turns between the action and the end.

    None for an action without a reward, which is nobody's alternative.

    **Example** discount .5, return 8 after turn 2: actions of turn 0 get 2, of turn 1 get 4, of turn 2 get 8.
    """
    return [
        tuple(
            tuple(
                None
                if earned is None or reward is None
                else discount ** (_last_turn(episode) - node.group.turn) * earned
                for reward in rewards_K
            )
            for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True)
        )
        for episode, rewards_N_K, earned in zip(
            episodes, rewards_E_N_K, episode_returns(episodes, rewards_E_N_K), strict=True
        )
    ]


def _last_turn(episode: Episode) -> int:
    assert episode.final is not None, f"{episode.problem.problem_id}: a return without a turn"
    return episode.nodes[episode.final].group.turn
