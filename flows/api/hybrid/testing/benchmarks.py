"""The documented benchmarks: speed, memory and latency, each measured on real play."""

import time
from collections import defaultdict
from typing import Any

import numpy as np
import psutil

from flows.api.fields import Above0, Count, check_arguments
from flows.api.hybrid.core.adaptive_strategy_system import AdaptiveStrategySystem
from flows.api.hybrid.core.hybrid_agent import HybridAgent
from flows.api.hybrid.testing.utils import SMALL_STEPS, create_mock_environment
from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import HybridLLMRLTrainer

_MIB = 2**20
_PERCENTILES = (50, 95, 99)


def benchmark_training_speed(
    trainer: HybridLLMRLTrainer, episodes: int = 100, *, max_steps_per_episode: int = SMALL_STEPS
) -> dict[str, float]:
    """Train so many more episodes, with all that a run stores and evaluates.

    **Example** {"episodes": 100, "steps": 18432, "seconds": 61.2, "steps_per_s": 301.2, "episodes_per_h": 5882.4}.
    """
    before, began = trainer.episode, time.perf_counter()
    trainer.train(episodes, max_steps_per_episode)
    seconds = time.perf_counter() - began
    assert trainer.played is not None, "it has trained"
    lengths = [each.length for each in trainer.played.episodes[before:]]
    return {
        "episodes": len(lengths),
        "steps": sum(lengths),
        "seconds": seconds,
        "steps_per_s": sum(lengths) / seconds,
        "episodes_per_h": len(lengths) * 3600 / seconds,
    }


@check_arguments
def benchmark_memory_usage(
    trainer: HybridLLMRLTrainer, duration: Above0 = 60, *, max_steps_per_episode: int = SMALL_STEPS
) -> dict[str, float]:
    """Train for `duration` seconds, one episode at least: resident MiB of this process at the start, at most and at the end.

    There is a sample at the start, and one after each training.
    """
    process, began = psutil.Process(), time.perf_counter()
    sizes = [process.memory_info().rss / _MIB]
    while time.perf_counter() - began < duration:
        trainer.train(1, max_steps_per_episode)
        sizes.append(process.memory_info().rss / _MIB)
    return {"rss_start": sizes[0], "rss_peak": max(sizes), "rss_end": sizes[-1], "samples": len(sizes)}


@check_arguments
def benchmark_decision_latency(agent: HybridAgent, samples: Count = 1000) -> dict[str, Any]:
    """Milliseconds of so many decisions in play on the twin: the mean and percentiles, of all and by who decided.

    A copy plays, with the agent's manager, mode and policy: the agent neither learns nor records.
    """
    network = "mlp" if agent.learner is None else agent.learner.rule.network
    player = HybridAgent(agent.llm_manager, AdaptiveStrategySystem(), mode=agent.mode, seed=agent.seed, network=network)
    if agent.learner is not None:
        player.load_weights(agent.learner.to_arrays())
    env, taken = create_mock_environment("twin", "state"), defaultdict[str, list[float]](list)
    observation, info = env.reset(seed=0)
    for _ in range(samples):
        began = time.perf_counter()
        action = player.get_action(observation, info)
        taken[player.last_decision["source"]].append(1000 * (time.perf_counter() - began))
        following, reward, terminated, truncated, info = env.step(action)
        player.update(observation, action, reward, following, terminated or truncated, truncated=truncated)
        observation = following
        if terminated or truncated:
            observation, info = env.reset()
    env.close()
    everything = [each for values in taken.values() for each in values]
    return {**_latencies(everything), "by_source": {source: _latencies(values) for source, values in taken.items()}}


def _latencies(milliseconds: list[float]) -> dict[str, float]:
    percentiles = np.percentile(milliseconds, _PERCENTILES)
    named = {f"p{percent}": float(value) for percent, value in zip(_PERCENTILES, percentiles, strict=True)}
    return {"samples": len(milliseconds), "mean_ms": float(np.mean(milliseconds)), **named}
