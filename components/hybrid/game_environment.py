"""A cartridge as an environment by name: what a language model sees of it, and what a button brings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from components.environments.base import Step
from components.environments.environment import Demonstrator, Environment
from components.errors import MalformedAction, ServiceMissing
from components.frozen import Settings
from components.hybrid.agent import RECENT_ACTIONS
from components.hybrid.cartridge_rules import HILL, ROUTE, TOWN
from components.hybrid.episodes import NUM_STARTS, EpisodeRule, Snapshot
from components.hybrid.game_facts import Action
from components.hybrid.game_text import Game, split_games
from components.hybrid.language_model import ADVISER_TASK, WORDS, button_prompt
from components.hybrid.llm_actor import Question
from components.hybrid.recording_games import SnapshotGames
from components.hybrid.twin import Twin

if TYPE_CHECKING:
    from components.hybrid.game_boy.pyboy_emulator import OneGame

_RIGHT, _UP, _DOWN = 12, 4, 0
"""Facings."""


def competent_action(game: Game) -> Action:
    """The next button on the way to the starter, the first badge, level 15 and the second badge of the homebrew cartridge.

    **Example** in a new game at (4, 5): LEFT.
    """
    if game["battle_mode"]:
        return Action.A
    if game["menu"] or game["script"]:
        return Action.B
    if not game["party_count"]:
        return _action_to_starter(game)
    if game["map_number"] == HILL or (game["map_number"] == ROUTE and game["johto_badges"]):
        return _action_after_first_badge(game)
    if game["map_number"] == TOWN and game["x"] <= 2 and game["y"] in (3, 4):
        return Action.DOWN  # around the house
    if (game["map_number"] != TOWN or game["x"] > 4) and game["y"] != 4:
        return Action.UP if game["y"] > 4 else Action.DOWN
    return Action.A if game["map_number"] != TOWN and game["x"] == 7 and game["facing"] == _RIGHT else Action.RIGHT


def _action_to_starter(game: Game) -> Action:
    if game["y"] > 2:
        return Action.LEFT if game["x"] in (3, 4) else Action.UP
    return Action.LEFT if game["x"] > 1 else Action.A if game["facing"] == _UP else Action.UP


def _action_after_first_badge(game: Game) -> Action:
    """South to the hill, up and down its grass until level 15, then to the second gym."""
    if game["map_number"] == ROUTE:
        return Action.DOWN if game["x"] == 2 else Action.RIGHT if game["x"] < 2 else Action.LEFT
    if game["level"] < 15:
        return Action.DOWN if game["y"] < 3 or (game["y"] == 3 and game["facing"] == _DOWN) else Action.UP
    if game["y"] < 7:
        return Action.DOWN
    return Action.RIGHT if game["x"] < 8 else Action.A if game["facing"] == _DOWN else Action.DOWN


PLAYER = "player"
_ENDLESS = 1_000_000
"""Steps and badges that no episode reaches: who ends one here is the goal, or `environment.max_turns`."""
_ACTIONS = {word: action for action, word in WORDS.items()}


class GameBoyOptions(Settings):
    """The options of game_boy."""

    goal_badges: int = Field(2, ge=1, le=2)
    """The badges that solve it."""
    game: Literal["twin", "homebrew"] | Path = "homebrew"
    """homebrew: our own cartridge on the emulator PyBoy. twin: its rules without an emulator. A path: your own copy of Pokemon
    Crystal (English) on PyBoy, never played by us."""
    window: bool = False
    """Show the game of an emulator in a window, a tenth of a second each button."""

    @model_validator(mode="after")
    def _window_has_a_screen(self) -> "GameBoyOptions":
        if self.window and self.game == "twin":
            raise ValueError("window: game twin has no screen to show; set game to homebrew, or leave window out")
        return self

    @property
    def rom(self) -> Path | None:
        """The user's own copy; None for our games."""
        return self.game if isinstance(self.game, Path) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GameBoyState:
    """A game: all that decides how it goes on, and the last buttons, oldest first."""

    seed: int
    goal_badges: int
    game: Snapshot
    recent: tuple[Action, ...] = ()
    options: GameBoyOptions = field(default_factory=GameBoyOptions)
    """What it is played on."""


class GameBoyEnvironment(Demonstrator, Environment):
    """One game of our own cartridge, on the emulator or by its rules alone. A problem is a seed.

    A button earns what it earns in training: the growth of records.
    """

    roles = (PLAYER,)
    Options = GameBoyOptions
    weights: ClassVar[Mapping[str, float]] = {"team.solved": 0.0, "local.payoff": 1.0}
    states_are_immutable = True
    over = "the game is over"

    def draw(self, options: GameBoyOptions, rng: Random) -> Mapping[str, Any]:
        changed = options.model_dump(mode="json", exclude_defaults=True, exclude={"game"})
        game = {} if options.game == "twin" else {"game": str(options.game)}
        return {"goal_badges": options.goal_badges, **changed, **game, "seed": rng.getrandbits(48)}

    def start(self, problem: Mapping[str, Any]) -> GameBoyState:
        # A problem that names no game is of the rules alone: stored ones are, whatever the default of the option.
        values = {"game": "twin", **{name: value for name, value in problem.items() if name != "seed"}}
        seed, options = int(problem["seed"]), GameBoyOptions(**values)
        game = _twin(seed).snapshot() if options.game == "twin" else _open_emulated(options).start_at_seed(seed)
        return GameBoyState(seed=seed, goal_badges=options.goal_badges, game=game, options=options)

    def deciding(self, problem: Mapping[str, Any]) -> Any:
        game = problem.get("game", "twin")
        if game == "twin":
            return problem
        return {"game": game, "start": int(problem["seed"]) % NUM_STARTS.get(game, NUM_STARTS["crystal"])}

    def observe(self, state: GameBoyState, agent: str) -> str:
        return button_prompt(question(state))

    def instructions(self, state: GameBoyState, agent: str) -> str:
        return ADVISER_TASK

    def choices(self, state: GameBoyState, agent: str) -> tuple[str, ...]:
        return tuple(WORDS[action] for action in question(state).legal)

    def step(self, state: GameBoyState, agent: str, answer: str) -> Step:
        legal = self.choices(state, agent)
        if answer not in legal:
            raise MalformedAction(f"{answer!r} is no button that can be pressed now; press one of {', '.join(legal)}")
        games = _games(state)
        brought = games.step(np.array([_ACTIONS[answer]]))
        recent = (*state.recent, _ACTIONS[answer])[-RECENT_ACTIONS:]
        return Step(
            state=replace(state, game=games.snapshot(), recent=recent),
            solved=bool(games.facts["johto_badges"][0] >= state.goal_badges),
            payoffs={PLAYER: float(brought.rewards_N[0])},
        )

    def noisy_expert(self, state: GameBoyState, agent: str, *, noise: float, rng: Random) -> str:
        asked = question(state)
        sensible = competent_action(asked.facts)
        is_random = rng.random() < noise or sensible not in asked.legal
        return WORDS[rng.choice(asked.legal) if is_random else sensible]

    def random_answer(self, state: GameBoyState, agent: str, rng: Random) -> str:
        return rng.choice(self.choices(state, agent))


def question(state: GameBoyState) -> Question:
    """What an adviser is asked in this state."""
    games = _games(state)
    legal = tuple(Action(action) for action in np.flatnonzero(games.masks()[0]).tolist())
    return Question(facts=next(split_games(games.facts)), legal=legal, recent=state.recent)


def _games(state: GameBoyState) -> SnapshotGames:
    """One game that stands where the state does. That of an emulator stays there until the next call."""
    games: SnapshotGames = _twin(state.seed) if state.options.game == "twin" else _open_emulated(state.options)
    games.restore(state.game)
    return games


def _twin(seed: int) -> Twin:
    return Twin(1, seed=seed, rule=EpisodeRule(max_steps=_ENDLESS, goal_badges=_ENDLESS))


def _open_emulated(options: GameBoyOptions) -> "OneGame":
    """The game on the emulator. Raises ServiceMissing without it, which for our own cartridge names the rules that do."""
    try:
        from components.hybrid.game_boy.pyboy_emulator import one_game
    except ServiceMissing as error:
        if options.rom is not None:
            raise
        raise ServiceMissing(f"{error}; or set game to twin, which plays the same rules without it") from error

    return one_game(options.rom, has_window=options.window)
