"""Advantage estimators by their name in the configuration."""

from collections.abc import Callable, Mapping, Sequence

from components.algorithms.at_grpo import compare_nodes
from components.algorithms.dr_grpo import centre_alone
from components.algorithms.dr_mas import compare_agents
from components.algorithms.grouping import Advantages, Rewards
from components.algorithms.grpo import compare_episodes
from components.algorithms.reinforce_pp import compare_with_batch
from components.algorithms.rloo import leave_one_out
from components.config import AlgorithmConfig
from components.errors import ConfigurationError
from components.schema import Episode

Estimator = Callable[[Sequence[Episode], Rewards, AlgorithmConfig], Advantages]
"""From a step's episodes and their rewards (axes E, N, K) to advantages with the same axes."""

ESTIMATORS: Mapping[str, Estimator] = {
    "at_grpo": compare_nodes,
    "grpo": compare_episodes,
    "dr_mas": compare_agents,
    "rloo": leave_one_out,
    "reinforce_pp": compare_with_batch,
    "dr_grpo": centre_alone,
}


def estimator(name: str) -> Estimator:
    """The estimator called `name`. Raises ConfigurationError for any other name."""
    if name not in ESTIMATORS:
        raise ConfigurationError(f"algorithm.advantage {name!r}: use one of {', '.join(sorted(ESTIMATORS))}")
    return ESTIMATORS[name]
