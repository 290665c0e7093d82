"""The reward stage: the authority on rewards. It plays recorded actions again and trusts no recorded reward."""

import math
import random

from components.environments.base import EnvironmentFamily, MultiAgentEnv
from components.identity import seed_for
from components.rewards.base import Rubric
from components.schema import Episode, RolloutShard, ScoredShard, Turn

Rewards = tuple[tuple[tuple[float | None, ...], ...], ...]
"""Axes E, N, K."""


def score_shard(
    shard: RolloutShard, *, family: EnvironmentFamily, rubric: Rubric, shuffle_seed: int | None = None
) -> ScoredShard:
    """The rewards of every candidate, by `rubric`, from outcomes recomputed in fresh environments.

    Rollouts are not touched, so another rubric costs a replay and no generation. With `shuffle_seed` the rewards are permuted
    over all candidates of the shard: the control experiment in which nothing can be learned.

    Raises AssertionError naming the group when an outcome differs from the recorded one: environments are deterministic, so
    the record or the environment is wrong and its rewards mean nothing.
    """
    rewards_E_N_K: Rewards = tuple(_episode_rewards(episode, family, rubric) for episode in shard.episodes)
    if shuffle_seed is not None:
        rewards_E_N_K = shuffled(rewards_E_N_K, seed=seed_for(shuffle_seed, "shuffle", shard.step, shard.shard))
    return ScoredShard(step=shard.step, shard=shard.shard, rewards_E_N_K=rewards_E_N_K)


def shuffled(rewards_E_N_K: Rewards, *, seed: int) -> Rewards:
    """The same rewards in the same shape, each in a random place.

    **Example** (((1, 0), (0, 0)),) may become (((0, 0), (1, 0)),).
    """
    values = [reward for rewards_N_K in rewards_E_N_K for rewards_K in rewards_N_K for reward in rewards_K]
    random.Random(seed).shuffle(values)
    drawn = iter(values)
    return tuple(
        tuple(tuple(next(drawn) for _ in rewards_K) for rewards_K in rewards_N_K) for rewards_N_K in rewards_E_N_K
    )


def _episode_rewards(episode: Episode, family: EnvironmentFamily, rubric: Rubric) -> tuple[tuple[float, ...], ...]:
    if not episode.turns:
        return ()
    env = family.build(episode.problem)
    return tuple(_node_rewards(node, env, rubric) for node in episode.turns)


def _node_rewards(node: Turn, env: MultiAgentEnv, rubric: Rubric) -> tuple[float, ...]:
    """The rewards of one node; leaves `env` in the state after the chosen candidate."""
    before = env.snapshot()
    after = {}
    rewards: dict[str, float] = {}
    for text in dict.fromkeys(candidate.text for candidate in node.candidates):
        env.restore(before)
        outcome = env.apply(node.group.agent, text)
        rewards[text] = rubric.reward(outcome)
        assert math.isfinite(rewards[text]), f"{node.group}: reward {rewards[text]} of {outcome}"
        after[text] = outcome, env.snapshot()
    for index, candidate in enumerate(node.candidates):
        replayed = after[candidate.text][0]
        assert replayed == candidate.outcome, (
            f"{node.group} candidate {index}: replay gives {replayed}, recorded is {candidate.outcome}"
        )
    env.restore(after[node.candidates[node.chosen].text][1])
    return tuple(rewards[candidate.text] for candidate in node.candidates)
