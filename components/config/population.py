"""The method `population`: several models that are trained together, and how."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from components.config.policies import PolicyConfig
from components.config.sections import MethodConfig, Sections
from components.config.variants import ReadVariant, Variant
from components.frozen import Settings


class Asynchronous(Variant):
    """Each member learns alone."""

    mixes: ClassVar[bool] = False
    type: Literal["asynchronous"] = "asynchronous"
    every: int = Field(1, ge=1, le=2)
    """2 lets each member's weights reach the games every other step, the members' in turn; in between it plays by those before
    its last update. Needs loss.importance_cap."""
    staleness_exponent: float = Field(0.5, ge=0.0)
    """With every 2: what older weights played counts (1 + updates since) ** -staleness_exponent (FedAsync, arXiv
    1903.03934)."""


class Synchronized(Variant):
    """All get the mean of weights and of both moments."""

    mixes: ClassVar[bool] = True
    type: Literal["synchronized"] = "synchronized"
    every: int = Field(1, ge=1)
    """Steps between two rounds."""


class Federated(Variant):
    """Each moves towards the mean of what the adapters do, weighed by samples and returns (FedAvg, arXiv 1602.05629)."""

    mixes: ClassVar[bool] = True
    type: Literal["federated"] = "federated"
    every: int = Field(1, ge=1)
    """Steps between two rounds."""
    personal_share: float = Field(0.0, ge=0.0, le=1.0)
    """The share of its own adapter that a member keeps; 0 gives all members the mean."""
    return_temperature: float | None = Field(None, gt=0.0)
    """Samples are weighed by the softmax of average returns at this temperature. None: by their number alone."""
    proximal: float = Field(0.0, ge=0.0)
    """FedProx's mu (arXiv 1812.06127), a pull of each optimizer step towards the weights before the update."""


class Selective(Variant):
    """Only the best learn, and who has waited too long."""

    mixes: ClassVar[bool] = False
    type: Literal["selective"] = "selective"
    best_share: float = Field(0.5, gt=0.0, le=1.0)
    """The share of members that learn, by average raw return."""
    exploration: float = Field(0.1, ge=0.0, le=1.0)
    """How often another member learns all the same."""
    max_rounds_waiting: int = Field(3, ge=0)
    """After more steps than this without an update a member learns."""


WeightUpdates = Annotated[
    Annotated[Asynchronous | Synchronized | Federated | Selective, Field(discriminator="type")],
    ReadVariant("type", default="asynchronous"),
]


class Cooperative(Variant):
    """Each agent's return is shared with the team's mean."""

    type: Literal["cooperative"] = "cooperative"
    cooperation_strength: float = Field(0.6, ge=0.0, le=1.0)
    """The share of the team's mean."""
    team_size: int | None = Field(None, ge=1)
    """Agents that share, as neighbours in the environment's order; None: all."""


class Competitive(Variant):
    """From each agent's return a share of the others' mean is subtracted."""

    type: Literal["competitive"] = "competitive"
    competition_intensity: float = Field(0.4, ge=0.0, le=1.0)
    """The share of the others' mean."""


class Mixed(Variant):
    """Both, by how the agents' returns have moved together."""

    type: Literal["mixed"] = "mixed"
    cooperation_strength: float = Field(0.6, ge=0.0, le=1.0)
    """The share of the team's mean where returns rise together."""
    competition_intensity: float = Field(0.4, ge=0.0, le=1.0)
    """The share of the others' mean where they take from each other."""
    team_size: int | None = Field(None, ge=1)
    """Agents that share, as neighbours in the environment's order; None: all."""


class Hierarchical(Variant):
    """The leader gets half of its followers' mean."""

    type: Literal["hierarchical"] = "hierarchical"
    leader: str | None = None
    """The leading agent; None: the first of `agents`. In environment led it answers first."""
    leader_term: int | None = Field(None, ge=1)
    """Every so many steps the member with the highest average return takes the leading agent's seat, and who had it takes that
    member's; None: members stay."""
    compliance_bonus: float = Field(0.1, ge=0.0)
    """What a follower earns by giving the leader's last answer. It is no part of raw returns."""


TrainingMode = Annotated[
    Annotated[Cooperative | Competitive | Mixed | Hierarchical, Field(discriminator="type")],
    ReadVariant("type", default="mixed"),
]


class OpponentConfig(Settings):
    share: float = Field(0.5, gt=0.0, le=1.0)
    """Of a step's shards, those in which all agents but one are played by past selves."""
    every: int = Field(10, ge=1)
    """Steps after which each trained member leaves a past self in its pool. The start is the first."""
    capacity: int = Field(16, ge=2)
    """Past selves of a member; beyond it the second oldest is dropped."""
    priority: Literal["hard", "variance", "even"] = "hard"
    """Who is drawn (PFSP, Nature 575, 2019). hard: those beside whom the learner earns least. variance: those of its strength.
    even: all alike."""
    power: float = Field(2.0, ge=0.0)
    """hard: the exponent of the chance to lose."""
    lowest_payoff: float = -1.0
    """Of an episode, with highest_payoff the range in which payoffs are scaled to chances; one outside counts as the bound."""
    highest_payoff: float = 1.0

    @model_validator(mode="after")
    def _is_range(self) -> "OpponentConfig":
        if self.lowest_payoff >= self.highest_payoff:
            raise ValueError(
                f"lowest_payoff {self.lowest_payoff:g} is not below highest_payoff {self.highest_payoff:g}: give the range of "
                "an episode's payoffs"
            )
        return self


class PopulationMethod(MethodConfig):
    """Train the policies as the members of a population."""

    learns_from_credits = True
    draws_graph = True
    nights = "returns"

    type: Literal["population"] = "population"
    training_mode: TrainingMode = Mixed()
    """The returns that agents learn from, mixed from all."""
    rotates_seats: bool = False
    """Each shard of a step seats the members one agent further, so that all learn all roles. False: each plays its own."""
    opponents: OpponentConfig | None = None
    """Frozen past selves to play against; None: members play each other as they are."""
    weight_updates: WeightUpdates = Asynchronous()
    """What happens to the members' weights after their updates."""

    @property
    def proximal(self) -> float:
        """FedProx's pull, of federated updates."""
        return self.weight_updates.proximal if isinstance(self.weight_updates, Federated) else 0.0

    def check(self, config: Sections) -> None:
        """Raise ValueError for what other sections have that does not go with a population."""
        _check_play(config)
        _check_agents(self, config)
        _check_seats(self, config)
        _check_updates(self.weight_updates, config)


def _check_play(config: Sections) -> None:
    """What is compared, and what knows of a return of each agent's."""
    algorithm, rollout = config.algorithm, config.rollout
    if not algorithm.credits_agents and not (algorithm.takes_any_rewards and rollout.mode == "tree"):
        raise ValueError(
            f"algorithm.advantage {algorithm.advantage} under rollout.mode {rollout.mode} does not know each agent's return: "
            "in a population use role_baseline, role_mean, role_group or gae with independent, or at_grpo with tree"
        )
    for name, value, neutral in (
        ("rollout.overlap", rollout.overlap, "none"),
        ("rollout.max_resamples", rollout.max_resamples, 0),
        ("rewards.team_credit", config.rewards.team_credit, "node"),
    ):
        if value != neutral:
            raise ValueError(f"{name} {value} does not know the returns of a population's agents: set it to {neutral}")


def _check_agents(method: PopulationMethod, config: Sections) -> None:
    """What keeps the agents from being mixed by the training mode."""
    agents, mode = list(config.agents), method.training_mode
    if len(agents) < 2 and not isinstance(mode, Cooperative):
        raise ValueError(
            f"method.training_mode {mode.type} compares agents, and there is one: add another agent, or set it to cooperative"
        )
    if isinstance(mode, Hierarchical):
        if mode.leader is not None and mode.leader not in agents:
            raise ValueError(f"method.training_mode.leader {mode.leader!r} is no agent; agents are {', '.join(agents)}")
        if mode.leader_term is not None and method.rotates_seats:
            raise ValueError(
                "method.training_mode.leader_term elects who leads, and rotates_seats seats members in turn: leave one of them "
                "out"
            )
    elif not isinstance(mode, Competitive) and mode.team_size is not None and len(agents) % mode.team_size:
        raise ValueError(
            f"method.training_mode.team_size {mode.team_size} for {len(agents)} agents: use a divisor, that no team is smaller"
        )


def _check_seats(method: PopulationMethod, config: Sections) -> None:
    """What keeps the members from changing seats, or from meeting past selves."""
    opponents, num_shards = method.opponents, config.rollout.num_shards
    if method.rotates_seats and num_shards % len(config.agents):
        raise ValueError(
            f"method.rotates_seats: rollout.num_shards {num_shards} does not seat each member as each of "
            f"{len(config.agents)} agents equally often: set it to a multiple of their number"
        )
    if opponents is None:
        return
    if not config.generation.serves_past_selves:
        raise ValueError(
            f"method.opponents: generation.engine {config.generation.engine} serves no past selves: set it to "
            "transformers, or leave opponents out"
        )
    if len(config.agents) < 2:
        raise ValueError("method.opponents: the one agent has nobody to play against: leave opponents out")
    if round(opponents.share * num_shards) < 1:
        raise ValueError(
            f"method.opponents.share {opponents.share:g} of rollout.num_shards {num_shards} is less than one shard: raise one "
            "of them"
        )


def _check_updates(updates: WeightUpdates, config: Sections) -> None:
    """What keeps the members' weights from being mixed, pulled or played late."""
    trained = {name: policy for name, policy in sorted(config.policies.items()) if policy.trained}
    if updates.mixes and trained:
        _check_shapes(updates.type, trained)
    if isinstance(updates, Asynchronous) and updates.every > 1 and config.loss.importance_cap is None:
        raise ValueError(
            f"method.weight_updates.every {updates.every} trains on answers of the weights before: set loss.importance_cap, "
            "for example 2.0"
        )
    if not isinstance(updates, Federated):
        return
    if config.algorithm.has_critic and not all(p.adapter and p.adapter.freeze_a for p in trained.values()):
        raise ValueError(
            "method.weight_updates federated starts optimizers anew, with which algorithm.advantage gae keeps its critic: set "
            "policies.<name>.adapter.freeze_a, or the advantage to role_baseline"
        )
    said, training = f"method.weight_updates.proximal {updates.proximal:g}", config.training
    if updates.proximal and updates.every > 1:
        raise ValueError(
            f"{said} pulls towards the weights of the last step, and every {updates.every} mixes them later: set every to 1"
        )
    if updates.proximal and training.num_epochs * training.num_minibatches == 1:
        raise ValueError(
            f"{said} has no effect in an update of one optimizer step: raise training.num_epochs or num_minibatches"
        )
    if updates.proximal and training.zero_stage == 3:
        raise ValueError(f"{said} needs whole weights, and training.zero_stage 3 splits them: set it to 2")


def _check_shapes(strategy: str, trained: Mapping[str, PolicyConfig]) -> None:
    """Members that are mixed have adapters of one shape on one base."""
    said = f"method.weight_updates {strategy}"
    if whole := [name for name, policy in trained.items() if policy.adapter is None]:
        raise ValueError(
            f"{said} mixes adapters, and policies {whole} have none: set policies.<name>.adapter, or weight_updates to "
            "asynchronous or selective"
        )
    shapes = {name: (policy.base, policy.tiny, policy.adapter) for name, policy in trained.items()}
    first = next(iter(shapes))
    if other := next((name for name, shape in shapes.items() if shape != shapes[first]), None):
        raise ValueError(
            f"{said}: policies {first} and {other} differ in base or adapter: give all trained policies the same, or set "
            "weight_updates to asynchronous or selective"
        )
