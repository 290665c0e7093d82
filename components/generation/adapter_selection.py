"""Which of several adapters answers a request: pure functions of what is known of each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from random import Random
from typing import Literal

from components.errors import ConfigurationError
from components.identity import seed_for

Strategy = Literal["round_robin", "weighted_random", "performance_based", "rl_optimized", "adaptive"]
URGENT = 0.8
"""The priority from which adaptive chooses by performance."""
_EXPLORATION = sqrt(2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRecord:
    """What is known of an adapter. Rewards are 0 to 1; times are seconds."""

    num_requests: int = 0
    num_failures: int = 0
    total_seconds: float = 0.0
    num_rewards: int = 0
    total_reward: float = 0.0
    last_used_seconds: float | None = None

    @property
    def mean_reward(self) -> float:
        """0.5 before the first reward."""
        return self.total_reward / self.num_rewards if self.num_rewards else 0.5

    def after_request(self, *, seconds: float, failed: bool, now_seconds: float) -> "AdapterRecord":
        """The record after one more request."""
        return replace(
            self,
            num_requests=self.num_requests + 1,
            num_failures=self.num_failures + failed,
            total_seconds=self.total_seconds + seconds,
            last_used_seconds=now_seconds,
        )

    def after_reward(self, reward: float) -> "AdapterRecord":
        """The record after one more reward. Raises ConfigurationError outside of 0 to 1."""
        if not 0 <= reward <= 1:
            raise ConfigurationError(f"reward {reward}: use 0 to 1")
        return replace(self, num_rewards=self.num_rewards + 1, total_reward=self.total_reward + reward)


def selected_adapter(
    strategy: Strategy,
    records: Mapping[int, AdapterRecord],
    *,
    number: int,
    now_seconds: float,
    priority: float = 0.6,
    seed: int = 0,
) -> int:
    """The id of the adapter for request `number` among those of `records`. Of equals the lowest id.

    round_robin: in turn. weighted_random: drawn by the softmax of mean rewards. performance_based: the highest
    `performance`. rl_optimized: the highest upper confidence bound of the reward (UCB1, Auer et al. 2002), each once first.
    adaptive: by performance from priority .8 on, else in turn.
    """
    if not records:
        raise ConfigurationError("adapters: none is ready; load one first")
    ids = sorted(records)
    if strategy == "adaptive":
        strategy = "performance_based" if priority >= URGENT else "round_robin"
    if strategy == "round_robin":
        return ids[number % len(ids)]
    if strategy == "weighted_random":
        weights = [exp(records[each].mean_reward) for each in ids]
        return Random(seed_for(seed, "adapter", number)).choices(ids, weights)[0]
    if strategy == "performance_based":
        return max(ids, key=lambda each: (performance(records[each], now_seconds), -each))
    total = sum(each.num_rewards for each in records.values())
    return max(ids, key=lambda each: (upper_bound(records[each], total), -each))


def performance(record: AdapterRecord, now_seconds: float) -> float:
    """0 to 1: `.4 success + .4 / (1 + mean seconds) + .2 idle hours`, the last at most .2; an unused one counts as idle.

    **Example** ten requests, one failed, a second each, used just now: .36 + .2 + 0 = .56.
    """
    num = record.num_requests
    success = 1 - record.num_failures / num if num else 1.0
    latency = record.total_seconds / num if num else 0.0
    idle = 1.0 if record.last_used_seconds is None else (now_seconds - record.last_used_seconds) / 3600
    return 0.4 * success + 0.4 / (1 + latency) + 0.2 * min(max(idle, 0.0), 1.0)


def upper_bound(record: AdapterRecord, num_rewards: int) -> float:
    """The mean reward plus `sqrt(2 ln n / n_i)`; infinite before the first reward.

    **Example** mean .5 of 4 among 16: .5 + sqrt(2 x 2.773 / 4) = 1.677.
    """
    if not record.num_rewards:
        return inf
    return record.mean_reward + _EXPLORATION * sqrt(log(max(num_rewards, 1)) / record.num_rewards)
