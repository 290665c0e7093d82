"""The way in which a configuration is trained: as a team, or as a population."""

from collections.abc import Callable
from typing import Any

from components.config import RunConfig
from flows.train import TEAM, Loop, train
from flows.train_population import POPULATION, train_population


def loop_for(config: RunConfig) -> Loop:
    """The loop of a configuration."""
    return TEAM if config.population is None else POPULATION


def flow_for(config: RunConfig) -> Callable[..., dict[str, Any]]:
    """The flow that trains a configuration."""
    return train if config.population is None else train_population
