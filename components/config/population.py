"""The section `population`: several models that are trained together, and how."""

from typing import Literal

from pydantic import Field, model_validator

from components.config.sections import Sections
from components.frozen import Frozen

ROLE_ADVANTAGES = ("role_baseline", "role_mean", "role_group", "gae")
"""Advantages of whole episodes that know the return of each agent."""
TREE_ADVANTAGES = ("at_grpo", "rloo", "dr_grpo")
"""Advantages of compared candidates that take any rewards."""


class WeightUpdateConfig(Frozen):
    strategy: Literal["asynchronous", "synchronized", "federated", "selective"] = "asynchronous"
    """What happens to the members' weights after their updates. asynchronous: nothing, each learns alone. synchronized: all
    get the mean of weights and of both moments. federated: each moves towards the mean of what the adapters do, weighed by
    samples and returns (FedAvg, arXiv 1602.05629). selective: only the best learn, and who has waited too long."""
    every: int = Field(1, ge=1)
    """synchronized, federated: steps between two rounds. asynchronous: 2 lets each member's weights reach the games every
    other step, the members' in turn; in between it plays by those before its last update. Needs loss.importance_cap."""
    staleness_exponent: float = Field(0.5, ge=0.0)
    """asynchronous with every: what older weights played counts (1 + updates since) ** -staleness_exponent (FedAsync, arXiv
    1903.03934)."""
    personal_share: float = Field(0.0, ge=0.0, le=1.0)
    """federated: the share of its own adapter that a member keeps; 0 gives all members the mean."""
    return_temperature: float | None = Field(None, gt=0.0)
    """federated: samples are weighed by the softmax of average returns at this temperature. None: by their number alone."""
    proximal: float = Field(0.0, ge=0.0)
    """federated: FedProx's mu (arXiv 1812.06127), a pull of each optimizer step towards the weights before the update."""
    best_share: float = Field(0.5, gt=0.0, le=1.0)
    """selective: the share of members that learn, by average raw return."""
    exploration: float = Field(0.1, ge=0.0, le=1.0)
    """selective: how often another member learns all the same."""
    max_rounds_waiting: int = Field(3, ge=0)
    """selective: after more steps than this without an update a member learns."""

    @model_validator(mode="after")
    def _every_field_has_an_effect(self) -> "WeightUpdateConfig":
        effective = {
            "asynchronous": {"every"} if self.every == 1 else {"every", "staleness_exponent"},
            "synchronized": {"every"},
            "federated": {"every", "personal_share", "return_temperature", "proximal"},
            "selective": {"best_share", "exploration", "max_rounds_waiting"},
        }[self.strategy]
        for name in sorted(self.model_fields_set - effective - {"strategy"}):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name} {getattr(self, name)} has no effect under strategy {self.strategy}: leave it out"
                )
        return self


class OpponentConfig(Frozen):
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


class PopulationConfig(Frozen):
    training_mode: Literal["cooperative", "competitive", "mixed", "hierarchical"] = "mixed"
    """The returns that agents learn from, mixed from all: cooperative shares cooperation_strength with the team's mean,
    competitive subtracts competition_intensity of the others' mean, mixed does both by how returns have moved together, and
    hierarchical gives the leader half of its followers' mean."""
    cooperation_strength: float = Field(0.6, ge=0.0, le=1.0)
    """cooperative, mixed."""
    competition_intensity: float = Field(0.4, ge=0.0, le=1.0)
    """competitive, mixed."""
    team_size: int | None = Field(None, ge=1)
    """cooperative, mixed: agents that share, as neighbours in the environment's order; None: all."""
    leader: str | None = None
    """hierarchical: the leading agent; None: the first of `agents`. In environment led it answers first."""
    leader_term: int | None = Field(None, ge=1)
    """hierarchical: every so many steps the member with the highest average return takes the leading agent's seat, and who had
    it takes that member's; None: members stay."""
    compliance_bonus: float = Field(0.1, ge=0.0)
    """hierarchical: what a follower earns by giving the leader's last answer. It is no part of raw returns."""
    discount: float = Field(1.0, ge=0.0, le=1.0)
    """Of rewards that come a turn later, for each turn."""
    baseline_decay: float = Field(0.95, ge=0.0, lt=1.0)
    """algorithm.advantage role_baseline: how much of an agent's average return is kept at each episode."""
    rotates_seats: bool = False
    """Each shard of a step seats the members one agent further, so that all learn all roles. False: each plays its own."""
    opponents: OpponentConfig | None = None
    """Frozen past selves to play against; None: members play each other as they are."""
    weight_updates: WeightUpdateConfig = WeightUpdateConfig()

    @model_validator(mode="after")
    def _every_field_has_an_effect(self) -> "PopulationConfig":
        effective = {
            "cooperative": {"cooperation_strength", "team_size"},
            "competitive": {"competition_intensity"},
            "mixed": {"cooperation_strength", "competition_intensity", "team_size"},
            "hierarchical": {"leader", "leader_term", "compliance_bonus"},
        }[self.training_mode]
        of_modes = {
            *("cooperation_strength", "competition_intensity", "team_size"),
            *("leader", "leader_term", "compliance_bonus"),
        }
        for name in sorted(self.model_fields_set & (of_modes - effective)):
            if self.is_set(name):
                raise ValueError(
                    f"{name} {getattr(self, name)} has no effect under training_mode {self.training_mode}: leave it out"
                )
        return self

    def is_set(self, name: str) -> bool:
        """Whether the field of this name differs from its default."""
        return bool(getattr(self, name) != type(self).model_fields[name].default)


def population_misfit(config: Sections) -> str | None:
    """What other sections have that does not go with the section `population`, or with its absence; None: nothing."""
    population, advantage, mode = config.population, config.algorithm.advantage, config.rollout.mode
    if population is None:
        if advantage in ROLE_ADVANTAGES:
            return f"algorithm.advantage {advantage} reads the returns of a population: add its section, or use grpo"
        return None
    if advantage in ROLE_ADVANTAGES and mode != "independent":
        return f"algorithm.advantage {advantage} credits the actions of whole episodes: set rollout.mode to independent"
    if advantage not in (*ROLE_ADVANTAGES, *TREE_ADVANTAGES) or (advantage in TREE_ADVANTAGES and mode != "tree"):
        return (
            f"algorithm.advantage {advantage} under rollout.mode {mode} does not know each agent's return: in a population "
            "use role_baseline, role_mean, role_group or gae with independent, or at_grpo with tree"
        )
    for name, field, unread in (
        ("algorithm.advantage", "baseline_decay", advantage != "role_baseline" and advantage),
        ("rollout.mode", "discount", mode == "tree" and mode),
    ):
        if unread and population.is_set(field):
            return f"population.{field} {getattr(population, field)} has no effect under {name} {unread}: leave it out"
    return (
        _agents_misfit(population, config)
        or _seating_misfit(config, population)
        or _unknowing_misfit(config)
        or _critic_misfit(population, config)
        or _proximal_misfit(population.weight_updates, config)
        or _staleness_misfit(population.weight_updates, config)
    )


def _critic_misfit(population: PopulationConfig, config: Sections) -> str | None:
    """What a critic, which is kept with the optimizer, does not go with; None: nothing."""
    if config.algorithm.advantage != "gae":
        return None
    stage, trained = config.training.zero_stage, [policy for policy in config.policies.values() if policy.trained]
    if population.weight_updates.strategy == "federated" and not all(p.adapter and p.adapter.freeze_a for p in trained):
        return (
            "population.weight_updates.strategy federated starts optimizers anew, with which algorithm.advantage gae keeps its "
            "critic: set policies.<name>.adapter.freeze_a, or the advantage to role_baseline"
        )
    if stage:
        return f"training.zero_stage {stage} splits optimizers, and algorithm.advantage gae keeps a critic in them: set it to 0"
    if config.loss.mask_truncated:
        return (
            "loss.mask_truncated leaves actions out, and a critic (algorithm.advantage gae) reads all of an episode: set it to "
            "false"
        )
    return None


def _proximal_misfit(updates: WeightUpdateConfig, config: Sections) -> str | None:
    """What a pull towards the weights before an update does not go with; None: nothing."""
    said, training = f"population.weight_updates.proximal {updates.proximal:g}", config.training
    if not updates.proximal:
        return None
    if updates.every > 1:
        return f"{said} pulls towards the weights of the last step, and every {updates.every} mixes them later: set every to 1"
    if training.num_epochs * training.num_minibatches == 1:
        return f"{said} has no effect in an update of one optimizer step: raise training.num_epochs or num_minibatches"
    if training.zero_stage == 3:
        return f"{said} needs whole weights, and training.zero_stage 3 splits them: set it to 2"
    return None


def _staleness_misfit(updates: WeightUpdateConfig, config: Sections) -> str | None:
    """What keeps members from playing by older weights; None: nothing."""
    if updates.strategy != "asynchronous" or updates.every == 1:
        return None
    said = f"population.weight_updates.every {updates.every}"
    if updates.every > 2:
        return f"{said}: asynchronous members play by weights of at most one update ago; set it to 2"
    if config.loss.importance_cap is None:
        return f"{said} trains on answers of the weights before: set loss.importance_cap, for example 2.0"
    return None


def _agents_misfit(population: PopulationConfig, config: Sections) -> str | None:
    """What keeps the agents from being mixed by the training mode."""
    agents, said = list(config.agents), f"population.training_mode {population.training_mode}"
    if population.leader is not None and population.leader not in agents:
        return f"population.leader {population.leader!r} is no agent; agents are {', '.join(agents)}"
    if len(agents) < 2 and population.training_mode != "cooperative":
        return f"{said} compares agents, and there is one: add another agent, or set it to cooperative"
    if population.team_size is not None and len(agents) % population.team_size:
        return f"population.team_size {population.team_size} for {len(agents)} agents: use a divisor, that no team is smaller"
    if population.leader_term is not None and population.rotates_seats:
        return "population.leader_term elects who leads, and rotates_seats seats members in turn: leave one of them out"
    return None


def _seating_misfit(config: Sections, population: PopulationConfig) -> str | None:
    """What keeps the members from changing seats, or from meeting past selves; None: nothing."""
    opponents, num_shards = population.opponents, config.rollout.num_shards
    if population.rotates_seats and num_shards % len(config.agents):
        return (
            f"population.rotates_seats: rollout.num_shards {num_shards} does not seat each member as each of "
            f"{len(config.agents)} agents equally often: set it to a multiple of their number"
        )
    if opponents is None:
        return None
    if config.generation.engine != "transformers":
        return (
            f"population.opponents: generation.engine {config.generation.engine} serves no past selves: set it to "
            "transformers, or leave opponents out"
        )
    if len(config.agents) < 2:
        return "population.opponents: the one agent has nobody to play against: leave opponents out"
    if round(opponents.share * num_shards) < 1:
        return (
            f"population.opponents.share {opponents.share:g} of rollout.num_shards {num_shards} is less than one shard: raise "
            "one of them"
        )
    return None


def _unknowing_misfit(config: Sections) -> str | None:
    """What other sections have that does not know of a return of each agent's."""
    rollout, rewards = config.rollout, config.rewards
    for name, value, neutral in (
        ("rollout.overlap", rollout.overlap, "none"),
        ("rollout.max_resamples", rollout.max_resamples, 0),
        ("rewards.team_credit", rewards.team_credit, "node"),
    ):
        if value != neutral:
            return f"{name} {value} does not know the returns of a population's agents: set it to {neutral}"
    return None


def members_misfit(config: Sections) -> str | None:
    """What keeps the policies from being the members of the configured population; None: nothing."""
    if config.population is None:
        return None
    strategy = config.population.weight_updates.strategy
    trained = {name: policy for name, policy in sorted(config.policies.items()) if policy.trained}
    if not trained or strategy not in ("synchronized", "federated"):
        return None
    said = f"population.weight_updates.strategy {strategy}"
    if whole := [name for name, policy in trained.items() if policy.adapter is None]:
        return (
            f"{said} mixes adapters, and policies {whole} have none: set policies.<name>.adapter, or strategy to asynchronous "
            "or selective"
        )
    shapes = {name: (policy.base, policy.tiny, policy.adapter) for name, policy in trained.items()}
    first = next(iter(shapes))
    if other := next((name for name, shape in shapes.items() if shape != shapes[first]), None):
        return (
            f"{said}: policies {first} and {other} differ in base or adapter: give all trained policies the same, or set "
            "strategy to asynchronous or selective"
        )
    return None
