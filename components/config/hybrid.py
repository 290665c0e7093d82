"""The section `hybrid`: a language model and an RL policy share a Game Boy, and how the policy learns."""

from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from components.config.sections import Sections
from components.frozen import Frozen

Share = Literal["llm_heavy", "balanced", "rule_heavy"]
"""A fixed share of the language model in the buttons: .8, .5 or .2."""

GAME_BOY = "game_boy"
"""The environment that such a run plays."""
PLAYER = "player"
"""Its role."""
REFLEXES = "reflexes"
"""The policy that such a run trains, beside those of the section `policies`."""
_SECTIONS_WITHOUT_EFFECT = ("rollout", "rewards", "algorithm", "loss", "training", "execution", "sandbox")
_OF_MODELS = frozenset({"loss", "training"})
"""Those that a language model which learns reads."""
_FILLED_FOR_CHAT = {
    "rollout": {"num_problems"},
    "training": {"dtype", "learning_rate"},
    "loss": {"importance_cap", "mismatch_tolerance"},
}
"""What `chat_defaults.py` fills in without being asked."""


class LearnerConfig(Frozen):
    network: Literal["mlp", "cnn"] = "mlp"
    """What the policy sees. mlp: 25 variables of the state. cnn: the emulator's screen, halved to 72 by 80 greys."""
    steps: int = Field(64, ge=1)
    """Buttons of each game in a training step."""
    minibatch: int = Field(1024, ge=1)
    """Rows of an optimizer step."""
    epochs: int = Field(4, ge=1)
    """How often each row is learned from."""
    width: int = Field(64, ge=1)
    """Of the hidden layers of the policy, and of the value function: two of an mlp, one of a cnn, behind two convolutions."""
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
    state_gains: Mapping[str, float] = Field(default_factory=dict)
    """What multiplies state variables before the policy sees them, as {x: 25, y: 25}; 1 for all others."""

    @model_validator(mode="after")
    def _sees_what_it_is_given(self) -> "LearnerConfig":
        if self.network == "cnn" and self.state_gains:
            raise ValueError(
                f"state_gains {dict(self.state_gains)} have no effect under network cnn, which sees the screen: leave them "
                "out, or set network to mlp"
            )
        return self


class StartsConfig(Frozen):
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


class StageConfig(Frozen):
    name: str = Field(min_length=1)
    """What it is called by `troupe view`."""
    reward_threshold: float = Field(allow_inf_nan=False)
    """The stage is passed where the last episodes earned so much on average, each in all its steps, by hybrid.weights."""
    llm_confidence: float = Field(ge=0.0, le=1.0)
    """How far the language model is trusted when the stage begins: its button counts where its confidence is at least 1 less
    this. Not above that of the stage before."""
    strategy: Share = "balanced"
    """Its share of the buttons when the stage begins: .8, .5 or .2."""
    min_episodes: int = Field(10, ge=1)
    """Of the stage, before it may be passed."""


class CurriculumConfig(Frozen):
    stages: tuple[StageConfig, ...] | None = Field(None, min_length=1)
    """From much help of the language model to little. None: guided (passed at a mean reward of 50, trust .9, llm_heavy), shared
    (100, .7, balanced), supervised (200, .5, rule_heavy) and alone (.3, rule_heavy, never passed, as the last one)."""
    patience: int = Field(20, ge=1)
    """Episodes without a better mean until a stage stalls: then the language model gets trust back, and a larger share."""
    decay: float = Field(0.995, gt=0.0, le=1.0)
    """Of the trust, for each episode; down to that of the next stage."""
    window: int = Field(10, ge=1)
    """Episodes of a stage whose mean reward counts."""
    largest_deviation: float = Field(0.2, ge=0.0, allow_inf_nan=False)
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


class HybridConfig(Frozen):
    mode: Literal["rl_only", "llm_only", "adaptive", "teacher"] = "rl_only"
    """Who presses buttons. rl_only: the policy. llm_only: the language model of agents.player. adaptive: who makes more
    progress. teacher: the policy, on subgoals that the language model writes before the first step."""
    game: Literal["twin", "homebrew", "crystal"] = "homebrew"
    """homebrew: our own cartridge on the emulator PyBoy. twin: its rules without an emulator, many times as fast. crystal: your
    own copy of Pokemon Crystal on PyBoy, never played by us."""
    rom: Path | None = None
    """crystal: where your copy is."""
    num_games: int = Field(64, ge=1)
    """Games that are played at once. How long an episode may be is environment.max_turns, what ends it
    environment.options.goal_badges."""
    learner: LearnerConfig = LearnerConfig()
    starts: StartsConfig | None = None
    """twin: some episodes begin at positions that play has found; None: all at the start."""
    strategy: Share | None = None
    """adaptive: a fixed share of the language model, .8, .5 or .2, instead of measured progress."""
    by_confidence: bool = False
    """adaptive: believe who claims the higher confidence, an ablation that a confident fool always wins."""
    curriculum: CurriculumConfig | None = None
    """adaptive: stages of play that say how far the language model is trusted, and which share it has; None: none."""
    questions_per_episode: int | None = Field(None, ge=1)
    """adaptive: how often a game may ask the language model in an episode; kept answers are free, and where a game may not ask
    the policy decides. None: no limit."""
    subgoals: tuple[str, ...] = Field((), max_length=12)
    """`name: condition` each, as `exit: map_number == 4 and x >= 8`; in mode teacher they take the place of the model's."""
    conditions: Literal["comparisons", "python"] = "comparisons"
    """What conditions of subgoals are. comparisons: of facts with whole numbers, joined by `and` and `or`, which cannot do
    anything else. python: any expression over the facts, run in the sandbox; they pay when a step is over."""
    keeps_decisions: bool | None = None
    """Keep all decisions for the history; None: where a language model may be asked for a button."""
    weights: Mapping[
        Literal["badges", "party", "caught", "levels", "events", "maps", "subgoals", "tiles", "step"], float
    ] = Field(default_factory=dict)
    """What one of each earns, where it is not the default of `components/hybrid/rewards.py`. That of subgoals is what each is
    wished to pay; together they never pay more than a quarter of the smallest true goal."""

    @model_validator(mode="after")
    def _every_field_has_an_effect(self) -> "HybridConfig":
        if (self.rom is None) == (self.game == "crystal"):
            raise ValueError(
                f"rom {self.rom}: game crystal needs your own copy of Pokemon Crystal (English): set rom to its path"
                if self.rom is None
                else f"rom {self.rom}: game {self.game} needs none; leave it out, or set game to crystal"
            )
        if self.starts is not None and self.game != "twin":
            raise ValueError(f"starts: game {self.game} begins at its start alone; leave it out, or set game to twin")
        if self.learner.network == "cnn" and self.game == "twin":
            raise ValueError(
                "hybrid.learner.network cnn: game twin has no screen to see; set hybrid.game to homebrew, or network to mlp"
            )
        if self.conditions == "python":
            self._check_programs()
        if "subgoals" in self.weights and not self.subgoals and self.mode != "teacher":
            raise ValueError("weights.subgoals pays for subgoals, and there are none: leave it out, or write subgoals")
        return self

    @model_validator(mode="after")
    def _control_is_shared_in_one_way(self) -> "HybridConfig":
        if self.mode != "adaptive" and (self.strategy is not None or self.by_confidence):
            raise ValueError(f"strategy and by_confidence have no effect under mode {self.mode}: leave them out")
        if self.mode != "adaptive" and self.curriculum is not None:
            raise ValueError(
                f"curriculum has no effect under mode {self.mode}, where one decides: leave it out, or set mode to adaptive"
            )
        if self.strategy is not None and self.by_confidence:
            raise ValueError(f"strategy {self.strategy} and by_confidence exclude each other: leave one out")
        if self.curriculum is not None and (self.strategy is not None or self.by_confidence):
            other = "by_confidence" if self.strategy is None else f"strategy {self.strategy}"
            raise ValueError(f"{other} and curriculum exclude each other, as its stages say who decides: leave one out")
        if self.mode != "adaptive" and self.questions_per_episode is not None:
            raise ValueError(
                f"questions_per_episode {self.questions_per_episode}: mode {self.mode} "
                + ("has no policy to decide instead" if self.mode == "llm_only" else "asks for no button")
                + "; leave it out, or set mode to adaptive"
            )
        return self

    def _check_programs(self) -> None:
        if not self.subgoals and self.mode != "teacher":
            raise ValueError("conditions python: there are no subgoals; leave it out, or write subgoals")
        if self.asks_for_buttons:
            raise ValueError(
                f"conditions python pay when a step is over, and mode {self.mode} credits who decides while it is played: "
                "leave it out, or set mode to teacher or rl_only"
            )
        if self.starts is not None:
            raise ValueError(
                "conditions python: a position does not store which of them it met; leave starts out, or use comparisons"
            )

    @property
    def runs_programs(self) -> bool:
        """Whether conditions are run in the sandbox."""
        return self.conditions == "python"

    @property
    def asks_for_buttons(self) -> bool:
        """Whether a language model may be asked for a button."""
        return self.mode in ("llm_only", "adaptive")

    @property
    def has_history(self) -> bool:
        """Whether decisions are kept."""
        return self.asks_for_buttons if self.keeps_decisions is None else self.keeps_decisions

    @property
    def asks_model(self) -> bool:
        """Whether a language model is asked for anything."""
        return self.asks_for_buttons or (self.mode == "teacher" and not self.subgoals)


def is_on_emulator(config: Sections) -> bool:
    """Whether a run plays a cartridge, and so has screens."""
    return config.hybrid is not None and config.hybrid.game != "twin"


def tuned_model(config: Sections) -> str | None:
    """The policy of the language model that learns from the buttons that it drew; None where none does."""
    trained = [name for name, policy in config.policies.items() if policy.trained]
    return trained[0] if config.hybrid is not None and trained else None


def hybrid_misfit(config: Sections) -> str | None:
    """What other sections have that does not go with the section `hybrid`; None: nothing."""
    hybrid = config.hybrid
    if not config.tracking.episode_pictures and not is_on_emulator(config):
        return "tracking.episode_pictures false: only a hybrid run on an emulator makes pictures; leave it out"
    if hybrid is None:
        return None
    if config.population is not None:
        return "population and hybrid are trained by different flows: leave one section out"
    if config.environment.name != GAME_BOY:
        return f"environment.name {config.environment.name}: hybrid plays {GAME_BOY}; name that"
    if without_effect := sorted({"game", "rom", "window"} & set(config.environment.options)):
        return f"environment.options.{without_effect[0]} has no effect beside hybrid: leave it out, and set hybrid.game"
    if hybrid.asks_model and not config.agents:
        return f"hybrid.mode {hybrid.mode} asks a language model: name its policy as agents.player.policy"
    if not hybrid.asks_model and config.agents:
        return f"agents {sorted(config.agents)}: hybrid.mode {hybrid.mode} asks no language model; leave them and policies out"
    if set(config.agents) - {PLAYER}:
        return f"agents {sorted(config.agents)}: {GAME_BOY} has one role; name it {PLAYER}"
    for role, agent in config.agents.items():
        unused = sorted(
            name
            for name in agent.model_fields_set - {"policy", "max_new_tokens"}
            if getattr(agent, name) != type(agent).model_fields[name].default
        )
        if unused:
            return f"agents.{role}.{unused[0]} has no effect beside hybrid, whose questions have their own form: leave it out"
    for name, policy in config.policies.items():
        if policy.api is not None and hybrid.asks_for_buttons:
            return (
                f"policies.{name}.api: a model behind an api gives no probabilities of buttons; use one with weights, or "
                "hybrid.mode teacher"
            )
    tuned = tuned_model(config)
    if tuned is not None and not hybrid.asks_for_buttons:
        return f"policies.{tuned}.trained: a teacher presses no buttons to learn from; set it to false, or mode to llm_only"
    if REFLEXES in config.policies:
        return f"policies.{REFLEXES}: the policy that hybrid trains has this name; choose another"
    boxed = {"sandbox"} if hybrid.runs_programs else set()
    return _section_without_effect(config, boxed | (set() if tuned is None else _OF_MODELS))


def _section_without_effect(config: Sections, effective: Collection[str]) -> str | None:
    for name in _SECTIONS_WITHOUT_EFFECT:
        if name in effective:
            continue
        section: Any = getattr(config, name)
        for field in sorted(section.model_fields_set - _FILLED_FOR_CHAT.get(name, set())):
            known = type(section).model_fields[field]
            if getattr(section, field) != known.get_default(call_default_factory=True):
                return f"{name}.{field} has no effect beside hybrid: leave it out"
    return None
