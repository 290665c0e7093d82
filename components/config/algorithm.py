"""The section `algorithm`: the advantage, each variant with the fields that it reads."""

from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from components.config.variants import CUSTOM_TAG, ReadVariant, Variant, tag_custom

RolloutMode = Literal["tree", "nested", "independent", "single"]
_NODES: tuple[RolloutMode, ...] = ("tree", "nested")
_EPISODES: tuple[RolloutMode, ...] = ("independent", "single")


class AlgorithmConfig(Variant):
    """The fields of advantages that compare groups. What a variant fixes is a constant of its class."""

    chosen_by = "advantage"
    modes: ClassVar[tuple[RolloutMode, ...]] = (*_NODES, *_EPISODES)
    """The values of `rollout.mode` whose groups it compares."""
    takes_any_rewards: ClassVar[bool] = False
    """Whether it compares candidates by whatever they are credited with, as a population mixes it."""
    credits_agents: ClassVar[bool] = False
    """Whether it takes the return of each agent at each of its moves."""
    has_baseline_state: ClassVar[bool] = False
    """Whether averages are kept from step to step, as a population does."""
    has_critic: ClassVar[bool] = False
    """Whether a critic is trained beside the policy."""
    compares_continuations: ClassVar[bool] = False
    """Whether it compares what becomes of candidates, and not what they earn themselves."""
    reads_solver: ClassVar[bool] = False
    """Whether it takes what a solver says of each action, in place of rewards."""
    learns_from_equal_rewards: ClassVar[bool] = False

    advantage: str
    source: str | None = None
    """The source digest of a function of your own. Filled in at the start."""
    normalize_std: bool = True
    """Divide the centered reward by a standard deviation. rloo, role_mean, role_group and solver_value: False unless given."""
    normalize_over: Literal["group", "batch"] = "group"
    """The standard deviation of the group, or of all centered rewards of the step."""
    leave_one_out: bool = False
    """Each reward's baseline is the mean of the others of its group, not of all (RLOO, arXiv 2402.14740)."""
    epsilon: float = Field(1e-4, gt=0.0)
    """Added to the standard deviation."""


class _BuiltIn(AlgorithmConfig):
    source: ClassVar[str | None] = None  # type: ignore[misc]


class AtGrpo(_BuiltIn):
    """Compares the candidates of one node."""

    modes = _NODES
    takes_any_rewards = True
    advantage: Literal["at_grpo"] = "at_grpo"


class Grpo(_BuiltIn):
    """Compares whole episodes of one problem."""

    modes = _EPISODES
    advantage: Literal["grpo"] = "grpo"


class DrMas(_BuiltIn):
    """Compares all actions of one agent on one problem."""

    advantage: Literal["dr_mas"] = "dr_mas"


class Rloo(_BuiltIn):
    """Compares each with the mean of the others: candidates in a tree, else episodes."""

    takes_any_rewards = True
    advantage: Literal["rloo"] = "rloo"
    normalize_std: bool = False
    leave_one_out: ClassVar[bool] = True  # type: ignore[misc]


class DrGrpo(_BuiltIn):
    """Candidates in a tree, else episodes, less their mean."""

    takes_any_rewards = True
    advantage: Literal["dr_grpo"] = "dr_grpo"
    normalize_std: ClassVar[bool] = False  # type: ignore[misc]
    normalize_over: ClassVar[Literal["group", "batch"]] = "group"  # type: ignore[misc]
    epsilon: ClassVar[float] = 1e-4  # type: ignore[misc]


class ReinforcePP(_BuiltIn):
    """Compares with all rewards of the step; it has no groups."""

    learns_from_equal_rewards = True
    advantage: Literal["reinforce_pp"] = "reinforce_pp"
    normalize_std: ClassVar[bool] = True  # type: ignore[misc]
    normalize_over: ClassVar[Literal["group", "batch"]] = "batch"  # type: ignore[misc]
    leave_one_out: ClassVar[bool] = False  # type: ignore[misc]


class C3(DrGrpo):
    """Compares what becomes of the candidates of one node, each with the mean of the others."""

    modes = _NODES
    takes_any_rewards = False
    compares_continuations = True
    advantage: Literal["c3"] = "c3"  # type: ignore[assignment]
    leave_one_out: ClassVar[bool] = True  # type: ignore[misc]


class Gigpo(_BuiltIn):
    """Grpo, and besides compares the actions of one agent with equal prompts."""

    modes = _EPISODES
    advantage: Literal["gigpo"] = "gigpo"
    step_weight: float = Field(1.0, ge=0.0)
    """Weight of the comparison of actions with equal prompts beside that of whole episodes."""
    step_discount: float = Field(0.95, gt=0.0, le=1.0)
    """Factor of an episode's return for each turn between an action and the end."""


class SolverValue(_BuiltIn):
    """Takes what an exact solver says of each action, a privileged signal."""

    reads_solver = True
    advantage: Literal["solver_value"] = "solver_value"
    normalize_std: bool = False
    normalize_over: ClassVar[Literal["group", "batch"]] = "batch"  # type: ignore[misc]
    leave_one_out: ClassVar[bool] = False  # type: ignore[misc]


class CreditedConfig(_BuiltIn):
    """Takes the return of each agent at each of its moves, in whole episodes."""

    modes = ("independent",)
    credits_agents = True
    discount: float = Field(1.0, ge=0.0, le=1.0)
    """Of rewards that come a turn later, for each turn."""


class WholeReturns(CreditedConfig):
    """Takes returns as they are: they are compared with an expectation, not with each other."""

    normalize_std: ClassVar[bool] = False  # type: ignore[misc]
    normalize_over: ClassVar[Literal["group", "batch"]] = "group"  # type: ignore[misc]
    leave_one_out: ClassVar[bool] = False  # type: ignore[misc]
    epsilon: ClassVar[float] = 1e-4  # type: ignore[misc]


class RoleBaseline(WholeReturns):
    """An agent's return less its average return in that turn (SPIRAL). In populations."""

    has_baseline_state = True
    advantage: Literal["role_baseline"] = "role_baseline"
    baseline_decay: float = Field(0.95, ge=0.0, lt=1.0)
    """How much of an agent's average return is kept at each episode."""


class RoleMean(CreditedConfig):
    """An agent's return less the mean of the step (MARSHAL)."""

    advantage: Literal["role_mean"] = "role_mean"
    normalize_std: bool = False
    normalize_over: ClassVar[Literal["group", "batch"]] = "batch"  # type: ignore[misc]
    leave_one_out: ClassVar[bool] = False  # type: ignore[misc]


class RoleGroup(CreditedConfig):
    """An agent's return less that of the problem's replicas."""

    advantage: Literal["role_group"] = "role_group"
    normalize_std: bool = False


class Gae(WholeReturns):
    """PPO: an agent's return compared with what a critic expects, which is trained beside the policy."""

    has_critic = True
    advantage: Literal["gae"] = "gae"
    trace: float = Field(0.95, ge=0.0, le=1.0)
    """Lambda, how much of what came after an agent's next action counts beside the critic's value of it (arXiv 1506.02438); 1
    takes whole returns."""
    value_coefficient: float = Field(0.5, gt=0.0)
    """Weight of the critic's squared error in the loss, whose gradient also reaches the policy's layers."""


class CustomAdvantage(AlgorithmConfig):
    """A function of your own, in the current folder or installed."""

    advantage: str = Field(pattern=":")
    """module:function."""


Algorithm = Annotated[
    Annotated[AtGrpo, Tag("at_grpo")]
    | Annotated[Grpo, Tag("grpo")]
    | Annotated[DrMas, Tag("dr_mas")]
    | Annotated[Rloo, Tag("rloo")]
    | Annotated[ReinforcePP, Tag("reinforce_pp")]
    | Annotated[DrGrpo, Tag("dr_grpo")]
    | Annotated[C3, Tag("c3")]
    | Annotated[RoleBaseline, Tag("role_baseline")]
    | Annotated[RoleMean, Tag("role_mean")]
    | Annotated[RoleGroup, Tag("role_group")]
    | Annotated[Gae, Tag("gae")]
    | Annotated[Gigpo, Tag("gigpo")]
    | Annotated[SolverValue, Tag("solver_value")]
    | Annotated[CustomAdvantage, Tag(CUSTOM_TAG)],
    Discriminator(tag_custom("advantage")),
    ReadVariant("advantage", default="at_grpo", takes_custom=True),
]
