"""The sections of a configuration that others have to fit, as the checks of a section see the whole."""

from collections.abc import Mapping
from typing import Any, Protocol

from components.config.agents import AgentConfig
from components.config.algorithm import AlgorithmConfig
from components.config.environment import EnvironmentConfig
from components.config.generation import GenerationConfig
from components.config.loss import LossConfig
from components.config.policies import PolicyConfig
from components.config.rewards import RewardConfig
from components.config.rollout import RolloutConfig
from components.config.store import TrackingConfig
from components.config.training import TrainingConfig


class Sections(Protocol):
    """A `RunConfig`, for modules that it imports itself."""

    @property
    def environment(self) -> EnvironmentConfig: ...
    @property
    def agents(self) -> Mapping[str, AgentConfig]: ...
    @property
    def policies(self) -> Mapping[str, PolicyConfig]: ...
    @property
    def generation(self) -> GenerationConfig: ...
    @property
    def rollout(self) -> RolloutConfig: ...
    @property
    def rewards(self) -> RewardConfig: ...
    @property
    def algorithm(self) -> AlgorithmConfig: ...
    @property
    def training(self) -> TrainingConfig: ...
    @property
    def loss(self) -> LossConfig: ...
    @property
    def tracking(self) -> TrackingConfig: ...
    @property
    def population(self) -> Any: ...
    @property
    def hybrid(self) -> Any: ...
