"""The method `hybrid`: an RL policy and a language model that share the buttons of a Game Boy."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from components.config.agents import AgentConfig
from components.config.sections import MethodConfig, Sections
from components.config.variants import ReadVariant, Variant
from components.frozen import Settings

Share = Literal["llm_heavy", "balanced", "rule_heavy"]
"""A fixed share of the language model in the buttons: .8, .5 or .2."""

GAME_BOY = "game_boy"
"""The environment that such a run plays."""
PLAYER = "player"
"""Its role."""
LEARNER_POLICY = "reflexes"
"""The policy that such a run trains, beside those of the section `policies`."""


class Mlp(Variant):
    """Sees 25 variables of the state."""

    sees_screens: ClassVar[bool] = False
    type: Literal["mlp"] = "mlp"
    width: int = Field(64, ge=1)
    """Of the two hidden layers of the policy, and of the value function."""
    state_gains: Mapping[str, float] = Field(default_factory=dict)
    """What multiplies state variables before the policy sees them, as {x: 25, y: 25}; 1 for all others."""


class Cnn(Variant):
    """Sees the emulator's screen, halved to 72 by 80 greys."""

    sees_screens: ClassVar[bool] = True
    state_gains: ClassVar[Mapping[str, float]] = {}
    type: Literal["cnn"] = "cnn"
    width: int = Field(64, ge=1)
    """Of the hidden layer of the policy, and of the value function, behind two convolutions."""


Network = Annotated[Annotated[Mlp | Cnn, Field(discriminator="type")], ReadVariant("type", default="mlp")]


class LearnerConfig(Settings):
    network: Network = Mlp()
    """What the policy sees."""
    steps: int = Field(64, ge=1)
    """Buttons of each game in a training step."""
    minibatch: int = Field(1024, ge=1)
    """Rows of an optimizer step."""
    epochs: int = Field(4, ge=1)
    """How often each row is learned from."""
    learning_rate: float = Field(1.0e-3, gt=0.0)
    discount: float = Field(0.99, ge=0.0, le=1.0)
    """Of rewards that come a step later."""
    trace: float = Field(0.95, ge=0.0, le=1.0)
    """Lambda of generalised advantages."""
    clip: float = Field(0.2, gt=0.0)
    entropy_weight: float = Field(0.01, ge=0.0)
    value_weight: float = Field(0.5, ge=0.0)
    largest_gradient: float = Field(0.5, gt=0.0)
    """The norm to which gradients are clipped."""
    reward_scale: float = Field(0.1, gt=0.0)


class StartsConfig(Settings):
    share: float = Field(0.75, ge=0.0, le=1.0)
    """Of the episodes that begin where play has been, at first. It decays as the whole way is learned."""
    last_share: float = Field(0.25, ge=0.0, le=1.0)
    """The same at last; not above share."""
    goal_rate: float = Field(0.8, gt=0.0, le=1.0)
    """Of the last 100 episodes from the true start that reach the goal: then the help goes down to last_share."""
    decay: float = Field(0.999, gt=0.0, le=1.0)
    """Of the share, for each episode from the true start."""
    kept: int = Field(8, ge=1)
    """Positions that are kept of each section: party, badges and map."""

    @model_validator(mode="after")
    def _falls(self) -> "StartsConfig":
        if self.last_share > self.share:
            raise ValueError(
                f"last_share {self.last_share:g} is above share {self.share:g}: help only falls; swap them"
            )
        return self


class StageConfig(Settings):
    name: str = Field(min_length=1)
    """What it is called by `troupe view`."""
    reward_threshold: float
    """The stage is passed where the last episodes earned so much on average, each in all its steps, by method.weights."""
    llm_confidence: float = Field(ge=0.0, le=1.0)
    """How far the language model is trusted when the stage begins: its button counts where its confidence is at least
    1 - llm_confidence. Not above that of the stage before."""
    strategy: Share = "balanced"
    """Its share of the buttons when the stage begins: .8, .5 or .2."""
    min_episodes: int = Field(10, ge=1)
    """Of the stage, before it may be passed."""


class CurriculumConfig(Settings):
    stages: tuple[StageConfig, ...] | None = Field(None, min_length=1)
    """From much help of the language model to little. None: guided (passed at a mean reward of 50, trust .9, llm_heavy), shared
    (100, .7, balanced), supervised (200, .5, rule_heavy) and alone (.3, rule_heavy, never passed, as the last one)."""
    patience: int = Field(20, ge=1)
    """Episodes without a better mean until a stage stalls: then the language model gets trust back, and a larger share."""
    decay: float = Field(0.995, gt=0.0, le=1.0)
    """Of the trust, for each episode; down to that of the next stage."""
    window: int = Field(10, ge=1)
    """Episodes of a stage whose mean reward counts."""
    largest_deviation: float = Field(0.2, ge=0.0)
    """Of the rewards in the window, as a share of their mean: above it a stage is not passed."""

    @model_validator(mode="after")
    def _trust_falls(self) -> "CurriculumConfig":
        names = [stage.name for stage in self.stages or ()]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"stages: two are called {repeated!r}; give each a name of its own")
        trusts = [stage.llm_confidence for stage in self.stages or ()]
        for number, (before, after) in enumerate(pairwise(trusts)):
            if after > before:
                raise ValueError(
                    f"stages.{number + 1}.llm_confidence {after:g} is above that of the stage before, {before:g}: trust only "
                    "falls; lower it, or change the order"
                )
        return self


class RlOnly(Variant):
    """The policy presses the buttons."""

    asks_for_buttons: ClassVar[bool] = False
    type: Literal["rl_only"] = "rl_only"


class LlmOnly(Variant):
    """The language model of agents.player presses them."""

    asks_for_buttons: ClassVar[bool] = True
    type: Literal["llm_only"] = "llm_only"


class Adaptive(Variant):
    """Who makes more progress presses them."""

    asks_for_buttons: ClassVar[bool] = True
    type: Literal["adaptive"] = "adaptive"
    strategy: Share | None = None
    """A fixed share of the language model, .8, .5 or .2, instead of measured progress."""
    curriculum: CurriculumConfig | None = None
    """Stages of play that say how far the language model is trusted, and which share it has; None: none."""
    questions_per_episode: int | None = Field(None, ge=1)
    """How often a game may ask the language model in an episode; kept answers are free, and where a game may not ask the policy
    decides. None: no limit."""

    @model_validator(mode="after")
    def _share_is_set_once(self) -> "Adaptive":
        if self.curriculum is not None and self.strategy is not None:
            raise ValueError(
                f"strategy {self.strategy} and curriculum exclude each other, as its stages say who decides: leave one out"
            )
        return self


class Teacher(Variant):
    """The policy, on subgoals that the language model writes before the first step."""

    asks_for_buttons: ClassVar[bool] = False
    type: Literal["teacher"] = "teacher"


Mode = Annotated[
    Annotated[RlOnly | LlmOnly | Adaptive | Teacher, Field(discriminator="type")],
    ReadVariant("type", default="rl_only"),
]


class Twin(Variant):
    """The rules of our cartridge without an emulator, many times as fast."""

    is_emulated: ClassVar[bool] = False
    rom: ClassVar[Path | None] = None
    type: Literal["twin"] = "twin"
    starts: StartsConfig | None = None
    """Some episodes begin at positions that play has found; None: all at the start."""


class Homebrew(Variant):
    """Our own cartridge on the emulator PyBoy."""

    is_emulated: ClassVar[bool] = True
    rom: ClassVar[Path | None] = None
    type: Literal["homebrew"] = "homebrew"


class Crystal(Variant):
    """Your own copy of Pokemon Crystal (English) on PyBoy, never played by us."""

    is_emulated: ClassVar[bool] = True
    type: Literal["crystal"] = "crystal"
    rom: Path
    """Where your copy is."""


Game = Annotated[
    Annotated[Twin | Homebrew | Crystal, Field(discriminator="type")],
    ReadVariant("type", default="homebrew"),
]


class HybridMethod(MethodConfig):
    """Train an RL policy that shares a game with a language model."""

    unread = frozenset({"rollout", "rewards", "algorithm", "execution", "sandbox"})
    writes_answers = False
    nights = "games"
    own_policies = (LEARNER_POLICY,)

    type: Literal["hybrid"] = "hybrid"
    mode: Mode = RlOnly()
    """Who presses buttons."""
    game: Game = Homebrew()
    """What is played."""
    num_games: int = Field(64, ge=1)
    """Games that are played at once. How long an episode may be is environment.max_turns, what ends it
    environment.options.goal_badges."""
    learner: LearnerConfig = LearnerConfig()
    subgoals: tuple[str, ...] = Field((), max_length=12)
    """`name: condition` each, as `exit: map_number == 4 and x >= 8`: facts compared with whole numbers, joined by `and` and
    `or`; in mode teacher they take the place of the model's."""
    keeps_decisions: bool | None = None
    """Keep all decisions for the history; None: where a language model may be asked for a button."""
    weights: Mapping[
        Literal["badges", "party", "caught", "levels", "events", "maps", "subgoals", "tiles", "step"], float
    ] = Field(default_factory=dict)
    """What one of each earns, where it is not the default of `components/hybrid/rewards.py`. That of subgoals is what each is
    wished to pay; together they never pay more than a quarter of the smallest true goal."""

    @model_validator(mode="after")
    def _parts_fit(self) -> "HybridMethod":
        if self.learner.network.sees_screens and not self.game.is_emulated:
            raise ValueError(
                "learner.network cnn: game twin has no screen to see; set game to homebrew, or network to mlp"
            )
        if "subgoals" in self.weights and not self.subgoals and not isinstance(self.mode, Teacher):
            raise ValueError("weights.subgoals pays for subgoals, and there are none: leave it out, or write subgoals")
        return self

    @property
    def has_history(self) -> bool:
        """Whether decisions are kept."""
        return self.mode.asks_for_buttons if self.keeps_decisions is None else self.keeps_decisions

    @property
    def asks_model(self) -> bool:
        """Whether a language model is asked for anything."""
        return self.mode.asks_for_buttons or (isinstance(self.mode, Teacher) and not self.subgoals)

    @property
    def makes_pictures(self) -> bool:
        """Whether the game has a screen."""
        return self.game.is_emulated

    def check(self, config: Sections) -> None:
        """Raise ValueError for what other sections have that does not go with a hybrid player."""
        if config.environment.name != GAME_BOY:
            raise ValueError(f"environment.name {config.environment.name}: hybrid plays {GAME_BOY}; name that")
        if named := sorted({"game", "rom", "window"} & set(config.environment.options)):
            raise ValueError(f"environment.options.{named[0]}: leave it out; a hybrid run plays method.game")
        if self.asks_model and not config.agents:
            raise ValueError(
                f"method.mode {self.mode.type} asks a language model: name its policy as agents.player.policy"
            )
        if not self.asks_model and config.agents:
            raise ValueError(
                f"agents {sorted(config.agents)}: method.mode {self.mode.type} asks no language model; leave them and "
                "policies out"
            )
        if set(config.agents) - {PLAYER}:
            raise ValueError(f"agents {sorted(config.agents)}: {GAME_BOY} has one role; name it {PLAYER}")
        for role, agent in config.agents.items():
            neutral = AgentConfig(policy=agent.policy, max_new_tokens=agent.max_new_tokens)
            if unused := sorted(name for name, value in agent if value != getattr(neutral, name)):
                raise ValueError(
                    f"agents.{role}.{unused[0]}: leave it out; the questions of a hybrid run have a form of their own"
                )
        self._check_policies(config)

    def _check_policies(self, config: Sections) -> None:
        for name, policy in config.policies.items():
            if policy.api is not None and self.mode.asks_for_buttons:
                raise ValueError(
                    f"policies.{name}.api: a model behind an api gives no probabilities of buttons; use one with weights, or "
                    "method.mode teacher"
                )
        tuned = find_tuned_model(config)
        if tuned is not None and not self.mode.asks_for_buttons:
            raise ValueError(
                f"policies.{tuned}.trained: a teacher presses no buttons to learn from; set it to false, or mode to llm_only"
            )
        if LEARNER_POLICY in config.policies:
            raise ValueError(f"policies.{LEARNER_POLICY}: the policy that hybrid trains has this name; choose another")


def find_tuned_model(config: Sections) -> str | None:
    """The policy of the language model that learns from the buttons that it drew; None where none does."""
    if not isinstance(config.method, HybridMethod):
        return None
    return next((name for name, policy in config.policies.items() if policy.trained), None)
