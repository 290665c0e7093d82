"""The documented benchmarks: speed, memory and latency, each measured on real play."""

import time
from collections import defaultdict
from typing import Any

import numpy as np
import psutil

from components.errors import ConfigurationError
from components.identity import seed_for
from flows.api.hybrid.core.hybrid_agent import HybridAgent
from flows.api.hybrid.testing.utils import SMALL_STEPS, create_mock_environment
from flows.api.hybrid.trainer.hybrid_llm_rl_trainer import HybridLLMRLTrainer

_MIB = 2**20
_PERCENTILES = (50, 95, 99)


def benchmark_training_speed(
    trainer: HybridLLMRLTrainer, episodes: int = 100, *, max_steps_per_episode: int = SMALL_STEPS
) -> dict[str, float]:
    """Train so many more episodes: steps, seconds, and the shares of the environment's steps and of the language model.

    **Example** {"episodes": 100, "steps": 18432, "seconds": 61.2, "steps_per_s": 301.2, "episodes_per_h": 5882.4, ...}.
    """
    _check("episodes", episodes)
    steps, env, llm, began = trainer.total_steps, trainer.env_seconds, trainer.agent.llm_seconds, time.perf_counter()
    for _ in range(episodes):
        trainer.train_episode(max_steps_per_episode)
    seconds, played = time.perf_counter() - began, trainer.total_steps - steps
    return {
        "episodes": episodes,
        "steps": played,
        "seconds": seconds,
        "steps_per_s": played / seconds,
        "episodes_per_h": episodes * 3600 / seconds,
        "env_share": (trainer.env_seconds - env) / seconds,
        "llm_share": (trainer.agent.llm_seconds - llm) / seconds,
    }


def benchmark_memory_usage(
    trainer: HybridLLMRLTrainer, duration: float = 60, *, max_steps_per_episode: int = SMALL_STEPS
) -> dict[str, float]:
    """Train for `duration` seconds, one episode at least: resident MiB of this process at the start, at most and at the end.

    `growth_mb_per_min` is the slope of a line through all samples, one after each episode; 0 of fewer than three.
    """
    if duration <= 0:
        raise ConfigurationError(f"duration {duration}: use more than 0 seconds")
    process, began = psutil.Process(), time.perf_counter()
    times, sizes = [0.0], [process.memory_info().rss / _MIB]
    while times[-1] < duration:
        trainer.train_episode(max_steps_per_episode)
        times.append(time.perf_counter() - began)
        sizes.append(process.memory_info().rss / _MIB)
    growth = float(np.polyfit(times, sizes, 1)[0]) * 60 if len(sizes) > 2 else 0.0
    return {
        "rss_start": sizes[0],
        "rss_peak": max(sizes),
        "rss_end": sizes[-1],
        "growth_mb_per_min": growth,
        "samples": len(sizes),
    }


def benchmark_decision_latency(agent: HybridAgent, samples: int = 1000) -> dict[str, Any]:
    """Milliseconds of so many decisions in play on the twin: the mean and percentiles, of all and by who decided.

    The agent neither learns nor records. A language model that was asked in an equal state before is not asked again, as in
    training.
    """
    _check("samples", samples)
    env, frozen = create_mock_environment("twin", "state"), agent.frozen_copy(seed_for(agent.seed, "latency"))
    taken: dict[str, list[float]] = defaultdict(list)
    observation, info = env.reset(seed=0)
    for _ in range(samples):
        began = time.perf_counter()
        action = frozen.get_action(observation, info)
        milliseconds = 1000 * (time.perf_counter() - began)
        taken[frozen.last_decision["source"]].append(milliseconds)
        following, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        frozen.update(observation, action, reward, following, over, truncated=truncated)
        observation = following
        if over:
            observation, info = env.reset()
    env.close()
    everything = [each for values in taken.values() for each in values]
    return {**_latencies(everything), "by_source": {source: _latencies(values) for source, values in taken.items()}}


def _latencies(milliseconds: list[float]) -> dict[str, float]:
    percentiles = np.percentile(milliseconds, _PERCENTILES)
    named = {f"p{percent}": float(value) for percent, value in zip(_PERCENTILES, percentiles, strict=True)}
    return {"samples": len(milliseconds), "mean_ms": float(np.mean(milliseconds)), **named}


def _check(name: str, value: int) -> None:
    if value < 1:
        raise ConfigurationError(f"{name} {value}: use 1 or more")
