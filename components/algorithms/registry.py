"""Advantage estimators by their name in the configuration."""

from collections.abc import Callable, Mapping, Sequence

from components.algorithms.at_grpo import compare_nodes
from components.algorithms.grpo import compare_episodes
from components.config import AlgorithmConfig
from components.errors import ConfigurationError
from components.schema import Episode

Estimator = Callable[
    [Sequence[Episode], Sequence[Sequence[Sequence[float | None]]], AlgorithmConfig],
    list[tuple[tuple[float, ...], ...]],
]
"""From a step's episodes and their rewards (axes E, N, K) to advantages with the same axes."""

ESTIMATORS: Mapping[str, Estimator] = {"at_grpo": compare_nodes, "grpo": compare_episodes}


def estimator(name: str) -> Estimator:
    """The estimator called `name`. Raises ConfigurationError for any other name."""
    if name not in ESTIMATORS:
        raise ConfigurationError(f"algorithm.advantage {name!r}: use one of {', '.join(sorted(ESTIMATORS))}")
    return ESTIMATORS[name]
