"""The reward stage, the authority on rewards: it replays recorded actions and trusts no recorded reward."""

import math
import random
from collections.abc import Callable, Sequence

from components.environments.base import NO_TOOLS, Tools
from components.environments.family import Family
from components.errors import TooManyUnscorable
from components.identity import GroupKey, seed_for
from components.rewards.base import Rubric
from components.rewards.credit import CreditRule, credit_rewards
from components.rewards.overlong import Overlong
from components.rewards.own_rewards import CustomReward
from components.rewards.replay import Replay
from components.schema import Episode, RolloutShard, ScoredShard
from components.turn_order import TurnOrder

Rewards = tuple[tuple[tuple[float | None, ...], ...], ...]
"""Axes E, N, K."""
Progress = Callable[[int, int], None]
"""Called with the number of replayed nodes of the longest episode, and their total."""


def score_shard(
    shard: RolloutShard,
    *,
    family: Family,
    rubric: Rubric,
    credit: CreditRule = "node",
    tools: Tools = NO_TOOLS,
    overlong: Overlong | None = None,
    own: Sequence[CustomReward] = (),
    shuffle_seed: int | None = None,
    max_unscorable_fraction: float = 0.0,
    turn_order: TurnOrder | None = None,
    progress: Progress | None = None,
) -> ScoredShard:
    """The rewards of every compared candidate, by `rubric` and `credit`, from outcomes recomputed in fresh environments.

    A new rubric costs a replay, but no generation, and no execution either: `tools` answers from the shard's record. `overlong`
    penalises long answers, `own` components are added. With `shuffle_seed` the rewards are permuted over all candidates of the
    shard, as a control experiment in which nothing can be learned.

    A candidate has no reward (None) if the sandbox failed, if its programs behaved differently when run again, or if either
    befell all that continued it. Raises TooManyUnscorable if these are more than `max_unscorable_fraction` of the shard, and
    AssertionError naming the group if an outcome differs without tools, because environments are deterministic, or if other
    agents acted than `turn_order` says (None accepts the record). Components that the recorded outcome lacks are not compared.
    """
    replays = [Replay(episode, family, tools, rubric, turn_order) for episode in shard.episodes]
    num_nodes = max((len(episode.nodes) for episode in shard.episodes), default=0)
    for position in range(num_nodes):
        reached = [replay for replay in replays if position < len(replay.episode.nodes)]
        tools.prepare([call for replay in reached for call in replay.calls(position)])
        for replay in reached:
            replay.step(position)
        if progress is not None:
            progress(position + 1, num_nodes)
    scores = [_Scores(replay, rubric, credit, overlong) for replay in replays]
    own_C_E = {each.component: tuple(score.add(each) for score in scores) for each in own}
    rewards_E_N_K: Rewards = tuple(tuple(score.rewards_N_K) for score in scores)
    check_unscorable(shard.episodes, rewards_E_N_K, max_fraction=max_unscorable_fraction)
    if shuffle_seed is not None:
        seed = seed_for(shuffle_seed, "shuffle", shard.step, shard.shard)
        rewards_E_N_K = shuffle_rewards(shard.episodes, rewards_E_N_K, seed=seed)
    num_overlong = None if overlong is None else sum(score.num_overlong for score in scores)
    return ScoredShard(
        step=shard.step,
        shard=shard.shard,
        rewards_E_N_K=rewards_E_N_K,
        num_overlong=num_overlong,
        own_E_N_K=own_C_E or None,
    )


def check_unscorable(episodes: Sequence[Episode], rewards_E_N_K: Rewards, *, max_fraction: float) -> None:
    """Raise TooManyUnscorable if more than `max_fraction` of the compared candidates have no reward: the 26th of 512 at .05."""
    flags = [reward is None for reward in _of_compared(episodes, rewards_E_N_K)]
    if sum(flags) > max_fraction * len(flags):
        raise TooManyUnscorable(
            f"{sum(flags)} of {len(flags)} candidates could not be scored, rewards.max_failed_fraction allows {max_fraction}: "
            "the sandbox failed at their programs or at those of their continuations; `troupe sandbox status` says how it is"
        )


def shuffle_rewards(episodes: Sequence[Episode], rewards_E_N_K: Rewards, *, seed: int) -> Rewards:
    """The same rewards in the same shape, randomly permuted among the compared candidates that have one."""
    values = [reward for reward in _of_compared(episodes, rewards_E_N_K) if reward is not None]
    random.Random(seed).shuffle(values)
    drawn = iter(values)
    return tuple(
        tuple(
            tuple(None if reward is None else next(drawn) for reward in rewards_K) if node.is_trained_on else rewards_K
            for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True)
        )
        for episode, rewards_N_K in zip(episodes, rewards_E_N_K, strict=True)
    )


def _of_compared(episodes: Sequence[Episode], rewards_E_N_K: Rewards) -> list[float | None]:
    return [
        reward
        for episode, rewards_N_K in zip(episodes, rewards_E_N_K, strict=True)
        for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True)
        for reward in rewards_K
        if node.is_trained_on
    ]


class _Scores:
    """The rewards of one replayed episode."""

    def __init__(self, replay: Replay, rubric: Rubric, credit: CreditRule, overlong: Overlong | None) -> None:
        self._replay = replay
        self.num_overlong = 0
        credited_N_K = credit_rewards(replay.episode, replay.outcomes_N_K, rubric, credit)
        self.rewards_N_K = [
            tuple(
                None
                if reward is None
                else _finite(reward - self._compute_lost(n, k, overlong), replay.episode.nodes[n].group)
                for k, reward in enumerate(rewards_K)
            )
            for n, rewards_K in enumerate(credited_N_K)
        ]

    def add(self, own: CustomReward) -> tuple[tuple[float, ...], ...]:
        """Add a component to the rewards of all compared nodes, and return its values (N, K; empty for other nodes)."""
        values_N_K = own.values(self._replay.replayed)
        self.rewards_N_K = [
            tuple(
                None if reward is None else _finite(reward + own.weight * value, node.group)
                for reward, value in zip(rewards_K, values_K, strict=True)
            )
            if node.is_trained_on
            else rewards_K
            for node, rewards_K, values_K in zip(self._replay.episode.nodes, self.rewards_N_K, values_N_K, strict=True)
        ]
        return values_N_K

    def _compute_lost(self, n: int, k: int, overlong: Overlong | None) -> float:
        if overlong is None:
            return 0.0
        node = self._replay.episode.nodes[n]
        lost = overlong.punishment(node.group.agent, len(node.candidates[k].tokens))
        self.num_overlong += lost > 0.0
        return lost


def _finite(reward: float, group: GroupKey) -> float:
    assert math.isfinite(reward), f"{group}: reward {reward}"
    return reward
