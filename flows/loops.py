"""The way in which a configuration is trained: as a team, as a population, or as a hybrid player."""

from collections.abc import Callable
from typing import Any

from components.config import RunConfig
from flows.train import TEAM, Loop, train
from flows.train_hybrid import HYBRID, train_hybrid
from flows.train_population import POPULATION, train_population


def loop_for(config: RunConfig) -> Loop:
    """The loop of a configuration."""
    if config.hybrid is not None:
        return HYBRID
    return TEAM if config.population is None else POPULATION


def flow_for(config: RunConfig) -> Callable[..., dict[str, Any]]:
    """The flow that trains a configuration."""
    if config.hybrid is not None:
        return train_hybrid
    return train if config.population is None else train_population
