"""PettingZoo's parallel games by module, and states of theirs as immutable values that are copied exactly. Alone imports
pettingzoo."""

import copy
import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pkgutil import iter_modules
from random import Random
from typing import Any, Literal

import numpy as np

from components.environments.social.game import EXTRA
from components.errors import ConfigurationError, ServiceMissing
from components.identity import canonical_json
from components.text.suggestions import suggest

Key = tuple[str, str]
"""The module of a game and its parameters as JSON: what makes it anew."""
Copying = Literal["clone", "replay"]
"""How a state comes from the one before it: a clone, or reset and all steps anew where clones are not exact."""
PACKAGES = ("mpe2", "pettingzoo.classic", "pettingzoo.butterfly", "pettingzoo.sisl")
_NUM_PROBES, _PROBE_LENGTH = 2, 12
_SEEDS = 2**31
"""Games seed generators that take no more."""


class PettingGame:
    """A game with its parameters; `copying` is proved on lines of random play when it is made.

    Raises ConfigurationError for actions that are not discrete, and for a game that neither clones nor replays exactly.
    """

    def __init__(self, key: Key) -> None:
        self.key = key
        self._parameters: Mapping[str, Any] = _json(key[1])
        first = self.make()
        self.agents: tuple[str, ...] = tuple(first.possible_agents)
        spaces = [first.action_space(agent) for agent in self.agents]
        for agent, space in zip(self.agents, spaces, strict=True):
            if type(space).__name__ != "Discrete":
                raise ConfigurationError(
                    f"environment.options.game {key[0]!r}: {agent} acts in {space}, which cannot be chosen from a list; use a "
                    "game with discrete actions, or its parameter for them, such as continuous_actions: false"
                )
        self.first_action = tuple(int(space.start) for space in spaces)
        self.num_actions = tuple(int(space.n) for space in spaces)
        self.copying: Copying = "clone"
        if not self._copies_exactly():
            self.copying = "replay"
            if not self._copies_exactly():
                raise ConfigurationError(
                    f"environment.options.game {key[0]!r}: it neither clones nor replays exactly, so that no step of it can be "
                    "taken twice; choose another game"
                )

    def make(self) -> Any:
        """A new game, before its reset."""
        module = import_game(self.key[0])
        try:
            return module.parallel_env(**self._parameters)
        except (TypeError, AssertionError, ValueError) as error:
            raise ConfigurationError(
                f"environment.options.parameters {dict(self._parameters)}: {self.key[0]} refuses them: {error}"
            ) from error

    def start(self, seed: int) -> "PettingState":
        """The state after the reset."""
        game = self.make()
        seen, infos = game.reset(seed=seed % _SEEDS)
        return PettingState(game=self, seed=seed, live=game, seen=seen, masks=_masks(infos))

    def after(self, state: "PettingState", actions: Mapping[str, int]) -> "PettingState":
        """The state after a joint step of those who live."""
        steps = (*state.steps, tuple(actions.items()))
        if self.copying == "replay":
            return self.replay(state.seed, steps)
        return _step(state, clone_game(state.live), actions)

    def replay(self, seed: int, steps: Sequence[tuple[tuple[str, int], ...]]) -> "PettingState":
        """The state after all these steps, from the reset on."""
        state = self.start(seed)
        for step in steps:
            state = _step(state, state.live, dict(step))
        return state

    def _copies_exactly(self) -> bool:
        """Whether on some lines of random play a second step from each state, with other play in between, ends as the first
        did, and the whole line played anew ends as the line did."""
        for seed in range(_NUM_PROBES):
            rng, state = Random(seed), self.start(seed)
            for _ in range(_PROBE_LENGTH):
                if not state.acting:
                    break
                actions, other = random_actions(state, rng), random_actions(state, rng)
                try:
                    first = self.after(state, actions)
                    told = _facts(first)
                    aside = self.after(state, other)
                    if aside.acting:
                        self.after(aside, random_actions(aside, rng))
                    second = self.after(state, actions)
                except (AttributeError, AssertionError, TypeError):  # of a copy that is no longer the game
                    return False
                if not (_equal(_facts(first), told) and _equal(_facts(second), told)):
                    return False
                state = second
            if not _equal(_facts(self.replay(seed, state.steps)), _facts(state)):
                return False
        return True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PettingState:
    """Where a game stands. Nobody steps `live`, so that a copy is the state itself; another process replays the steps.

    `seen` is what each agent saw last, `rewards` what the last step paid.
    """

    game: PettingGame
    seed: int
    steps: tuple[tuple[tuple[str, int], ...], ...] = ()
    live: Any = field(repr=False)
    seen: Mapping[str, Any] = field(repr=False)
    masks: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The action masks that the game told in its infos, by agent."""
    rewards: Mapping[str, float] = field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """The joint steps so far."""
        return len(self.steps)

    @property
    def acting(self) -> tuple[int, ...]:
        """Those who live, by their number."""
        return tuple(number for number, agent in enumerate(self.game.agents) if agent in self.live.agents)

    def legal(self, member: int) -> list[int]:
        """The actions of a member; those of its mask if the game gives one, in the observation or in the infos.

        Raises ConfigurationError for a mask of another length than the actions.
        """
        agent, first = self.game.agents[member], self.game.first_action[member]
        seen = self.seen[agent]
        actions = list(range(first, first + self.game.num_actions[member]))
        mask = seen.get("action_mask") if isinstance(seen, Mapping) else None
        mask = self.masks.get(agent) if mask is None else mask
        if mask is not None and len(mask) != len(actions):
            raise ConfigurationError(
                f"environment.options.game {self.game.key[0]!r}: the action_mask of {agent} has {len(mask)} entries for "
                f"{len(actions)} actions; correct the game"
            )
        allowed = actions if mask is None else [action for action in actions if mask[action - first]]
        return allowed or actions

    def __deepcopy__(self, memo: object) -> "PettingState":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _replay, (self.game.key, self.seed, self.steps)


def random_actions(state: PettingState, rng: Random) -> dict[str, int]:
    """A joint step, each action as likely."""
    return {state.game.agents[member]: rng.choice(state.legal(member)) for member in state.acting}


def clone_game(game: Any, memo: dict[int, Any] | None = None) -> Any:
    """A game with its state. `deepcopy` of most games gives a new one instead: their `__setstate__` calls the constructor.

    Fonts and surfaces of pygame, which only draw, are shared.
    """
    kinds = _game_types()
    memo = {} if memo is None else memo
    copied = object.__new__(type(game))
    memo[id(game)] = copied
    for name, value in game.__dict__.items():
        if type(value).__module__.partition(".")[0] == "pygame":
            memo[id(value)] = value
        is_inner = isinstance(value, kinds) and id(value) not in memo
        copied.__dict__[name] = clone_game(value, memo) if is_inner else copy.deepcopy(value, memo)
    return copied


def petting_game(module: str, parameters: Mapping[str, Any]) -> PettingGame:
    """The game of a module. Raises ConfigurationError for an unknown one, with the nearest, and ServiceMissing without
    PettingZoo."""
    return _load((module, canonical_json(dict(parameters)).decode()))


def import_game(module: str) -> Any:
    """The module of a game, which has `parallel_env`. What its import prints is dropped.

    Raises ConfigurationError for an unknown module, one that lacks a library of its own, and one of games in turns.
    """
    _game_types()
    try:
        with redirect_stdout(StringIO()), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of imports by module, which say what version is played
            found = import_module(module)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if not (module == missing or module.startswith(f"{missing}.")):
            raise ConfigurationError(
                f"environment.options.game {module!r}: needs {missing}, which is not installed; install it first"
            ) from error
        raise ConfigurationError(
            f"environment.options.game {module!r}: no such module; {suggest(module, _list_modules())}"
        ) from error
    except ImportError as error:
        raise ConfigurationError(f"environment.options.game {module!r}: {error}") from error
    if not hasattr(found, "parallel_env"):
        raise ConfigurationError(
            f"environment.options.game {module!r}: it has no parallel_env; games in turns have none, but open_spiel has many"
        )
    return found


def _list_modules() -> list[str]:
    """The modules of games in the installed packages."""
    found = []
    for package in PACKAGES:
        spec = find_spec(package)
        places = spec.submodule_search_locations if spec else None
        found += [f"{package}.{each.name}" for each in iter_modules(places) if "_v" in each.name]
    return found


@cache
def _load(key: Key) -> PettingGame:
    return PettingGame(key)


@cache
def _game_types() -> tuple[type, ...]:
    """The classes of games. Raises ServiceMissing where PettingZoo is not installed."""
    try:
        pettingzoo = import_module("pettingzoo")
    except ModuleNotFoundError as error:
        if error.name != "pettingzoo":
            raise
        raise ServiceMissing(f"environment.name 'petting_zoo': PettingZoo is not installed; {EXTRA}") from error
    return (pettingzoo.AECEnv, pettingzoo.ParallelEnv)


def _json(text: str) -> Any:
    return json.loads(text)


def _step(state: PettingState, live: Any, actions: Mapping[str, int]) -> PettingState:
    """The state after `live`, a copy of the state's own, has made a step."""
    seen, rewards, _, _, infos = live.step(dict(actions))
    return PettingState(
        game=state.game,
        seed=state.seed,
        steps=(*state.steps, tuple(actions.items())),
        live=live,
        seen={**state.seen, **seen},
        masks=_masks(infos),
        rewards={agent: float(reward) for agent, reward in rewards.items()},
    )


def _masks(infos: Mapping[str, Any]) -> dict[str, Any]:
    """The action masks in a game's infos, by agent, as they are now."""
    told = {agent: info.get("action_mask") for agent, info in infos.items() if isinstance(info, Mapping)}
    return {agent: copy.deepcopy(mask) for agent, mask in told.items() if mask is not None}


def _replay(key: Key, seed: int, steps: Sequence[tuple[tuple[str, int], ...]]) -> PettingState:
    return _load(key).replay(seed, steps)


def _facts(state: PettingState) -> tuple[Any, ...]:
    return copy.deepcopy(state.seen), dict(state.masks), dict(state.rewards), list(state.live.agents)


def _equal(one: Any, other: Any) -> bool:
    """Whether two values of games are the same, arrays in them too."""
    if isinstance(one, Mapping):
        return (
            isinstance(other, Mapping)
            and one.keys() == other.keys()
            and all(_equal(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(np.array_equal(np.asarray(one), np.asarray(other), equal_nan=np.asarray(one).dtype.kind == "f"))
