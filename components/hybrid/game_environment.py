"""The homebrew cartridge as an environment by name: what a language model sees of it, and what a button brings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from components.environments.base import Step
from components.environments.environment import Demonstrator, Environment
from components.errors import MalformedAction
from components.frozen import Frozen
from components.hybrid.adviser import Question
from components.hybrid.agent import RECENT_ACTIONS
from components.hybrid.game_facts import Action
from components.hybrid.game_text import split_games
from components.hybrid.language_model import ADVISER_TASK, WORDS, button_prompt
from components.hybrid.scripted_advisers import competent_action
from components.hybrid.twin import Snapshot, Twin

PLAYER = "player"
_ENDLESS = 1_000_000
"""Steps and badges that no episode reaches: who ends one here is the goal, or `environment.max_turns`."""
_ACTIONS = {word: action for action, word in WORDS.items()}


class GameBoyOptions(Frozen):
    """The options of game_boy."""

    goal_badges: int = Field(2, ge=1, le=2)
    """The badges that solve it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GameBoyState:
    """A game: all that decides how it goes on, and the last buttons, oldest first."""

    seed: int
    goal_badges: int
    game: Snapshot
    recent: tuple[Action, ...] = ()


class GameBoyEnvironment(Demonstrator, Environment):
    """One game of our own cartridge, by the rules that training plays. A problem is a seed.

    A button earns what it earns in training: the growth of records.
    """

    roles = (PLAYER,)
    Options = GameBoyOptions
    weights: ClassVar[Mapping[str, float]] = {"team.solved": 0.0, "local.payoff": 1.0}
    states_are_immutable = True
    over = "the game is over"

    def draw(self, options: GameBoyOptions, rng: Random) -> Mapping[str, Any]:
        return {**options.model_dump(mode="json"), "seed": rng.getrandbits(48)}

    def start(self, problem: Mapping[str, Any]) -> GameBoyState:
        seed = int(problem["seed"])
        return GameBoyState(seed=seed, goal_badges=int(problem["goal_badges"]), game=_twin(seed).snapshot())

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
        twin = _twin(state.seed, state.game)
        brought = twin.step(np.array([_ACTIONS[answer]]))
        recent = (*state.recent, _ACTIONS[answer])[-RECENT_ACTIONS:]
        return Step(
            state=replace(state, game=twin.snapshot(), recent=recent),
            solved=bool(twin.facts["johto_badges"][0] >= state.goal_badges),
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
    twin = _twin(state.seed, state.game)
    legal = tuple(Action(action) for action in np.flatnonzero(twin.masks()[0]).tolist())
    return Question(facts=next(split_games(twin.facts)), legal=legal, recent=state.recent)


def _twin(seed: int, game: Snapshot | None = None) -> Twin:
    twin = Twin(1, seed=seed, max_steps=_ENDLESS, goal_badges=_ENDLESS)
    if game is not None:
        twin.restore(game)
    return twin
