"""One episode of the documented loop: ask the agent, step the environment, tell the agent."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from flows.api.hybrid.core.hybrid_agent import HybridAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePlayed:
    """What an episode earned, its steps, whether it reached its goal, the language model's share, and seconds of steps."""

    reward: float
    length: int
    succeeded: bool
    llm_usage: float
    env_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The fields that depend on play alone."""
        return {name: value for name, value in asdict(self).items() if name != "env_seconds"}


def play_episode(
    env: Any,
    agent: HybridAgent,
    *,
    seed: int,
    max_steps: int,
    on_step: Callable[[dict[str, Any]], None] | None = None,
) -> EpisodePlayed:
    """Play an episode whose chance is that of `seed`, and cut it after `max_steps`.

    `on_step` is told of each step: action, source, confidence, reward, reward_terms.
    """
    observation, info = env.reset(seed=seed)
    decisions, by_llm, total, seconds, done = agent.num_decisions, agent.num_llm_decisions, 0.0, 0.0, False
    length = 0
    terminated = False
    while not done:
        action = agent.get_action(observation, info)
        decided = agent.last_decision if on_step is not None else {}
        began = time.perf_counter()
        following, reward, terminated, truncated, info = env.step(action)
        seconds += time.perf_counter() - began
        length, total = length + 1, total + reward
        is_cut = not terminated and (truncated or length >= max_steps)
        done = terminated or is_cut
        agent.update(observation, action, reward, following, done, truncated=is_cut, next_info=info)
        observation = following
        if on_step is not None:
            on_step({**decided, "action": action, "reward": reward, "reward_terms": info.get("reward_terms", {})})
    num = max(1, agent.num_decisions - decisions)
    usage = (agent.num_llm_decisions - by_llm) / num
    return EpisodePlayed(reward=total, length=length, succeeded=bool(terminated), llm_usage=usage, env_seconds=seconds)
