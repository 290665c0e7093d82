"""The sections of a configuration that others have to fit, as the checks of a section see the whole."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Protocol

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
from components.config.variants import Variant


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
    def method(self) -> "MethodConfig": ...


class MethodConfig(Variant):
    """A method: who is trained, and how its steps go."""

    unread: ClassVar[frozenset[str]] = frozenset()
    """Sections that the method does not read, which a configuration leaves out."""

    writes_answers: ClassVar[bool] = True
    """Whether its policies answer in text, and learn from it."""
    learns_from_credits: ClassVar[bool] = False
    """Whether rewards become credits before they are learned from, each agent its own."""
    draws_graph: ClassVar[bool] = False
    """Whether its end draws who did what to whom."""
    nights: ClassVar[Literal["suites", "returns", "games"]] = "suites"
    """By what a night compares its runs: suites of problems, returns against each other, or its own games."""
    own_policies: ClassVar[tuple[str, ...]] = ()
    """Policies that it trains beside those of the section `policies`."""

    type: str

    @property
    def proximal(self) -> float:
        """How strongly an optimizer step is pulled towards the weights before the update."""
        return 0.0

    @property
    def makes_pictures(self) -> bool:
        """Whether there is something to see of an episode."""
        return False

    def check(self, config: Sections) -> None:
        """Raise ValueError for what other sections have that does not go with the method."""


class TeamMethod(MethodConfig):
    """Train a team: agents that act in turn, whose policies learn from what they earn together."""

    type: Literal["team"] = "team"

    def check(self, config: Sections) -> None:
        """Raise ValueError for an advantage that needs what only a population keeps."""
        if config.algorithm.has_baseline_state:
            raise ValueError(
                f"algorithm.advantage {config.algorithm.advantage} keeps averages of a population's agents: set method to "
                "population, or the advantage to role_mean, gae or grpo"
            )
