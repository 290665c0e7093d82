"""The documented environment over the games of `components/hybrid`; it needs Gymnasium, of the extra `hybrid`."""

import string
import weakref
from contextlib import ExitStack
from math import isfinite
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal, SupportsFloat, get_args

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError, ServiceMissing
from components.hybrid.game_boy.cartridges import crystal_cartridge, homebrew_cartridge
from components.hybrid.game_boy.emulator import SCREEN_SHAPE
from components.hybrid.game_boy.games import EmulatedGames, EpisodeRule
from components.hybrid.game_facts import NUM_ACTIONS, STATE_VARIABLES, Action, Booleans, state_variables
from components.hybrid.game_text import describe_goal, describe_state
from components.hybrid.language_model import WORDS
from components.hybrid.rewards import RewardWeights
from components.hybrid.twin import Twin
from components.machine.package_files import install_command
from components.text.suggestions import suggest
from flows.api.hybrid.core.exceptions import EnvironmentError, environment_errors

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    remedy = install_command("extras", "'troupe[hybrid]'")
    raise ServiceMissing(f"gymnasium is not installed: {remedy}") from error

HOMEBREW, TWIN = "homebrew", "twin"
ObservationType = Literal["multi_modal", "screen", "state"]
_LONGEST_TEXT, _MOST_BADGES = 300, 16
_ENDLESS = 1_000_000_000
"""Steps and badges that no episode of the games reaches: the environment ends it."""


class _Texts(spaces.Sequence):
    """Lists of texts, which Gymnasium's own Sequence wants as tuples."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return list(super().sample(mask, probability))

    def contains(self, x: Any) -> bool:
        return isinstance(x, list) and super().contains(tuple(x))


class EnhancedPyBoyPokemonCrystalEnv(gymnasium.Env[Any, Any]):
    """One game for Gymnasium, with masks of actions, context in words and a reward that a subclass may change.

    `rom_path` is your own copy of Pokemon Crystal, which we have never played; "homebrew", our own small cartridge; or "twin",
    the rules of that cartridge without an emulator, which has no screen. With `headless` False a window shows the game.

    An observation is a dict: `screen` (144, 160, 3), `state_variables` (25,), and `strategic_context` in words; the types
    `screen` and `state` have one key alone. `info` has `action_mask` (9,), which holds for the next step, `facts`, what
    `GameStateAnalysis` reads under `state`, and after a step `reward_terms`, whose sum is the reward.

    **Example** `env.reset(seed=7)`, then `env.step(5)` walks down: .1 for a new tile, less .01.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012  (the name and its form are gymnasium's)

    def __init__(
        self,
        rom_path: str,
        headless: bool = True,
        observation_type: str = "multi_modal",
        *,
        goal_badges: int = 2,
        max_steps: int | None = None,
        weights: RewardWeights | None = None,
    ) -> None:
        """Raises EnvironmentError without the ROM, the emulator or a screen, ConfigurationError for values that are none."""
        if observation_type not in get_args(ObservationType):
            raise ConfigurationError(
                f"observation_type {observation_type!r}: {suggest(observation_type, get_args(ObservationType))}"
            )
        if isinstance(goal_badges, bool) or not isinstance(goal_badges, int) or not 1 <= goal_badges <= _MOST_BADGES:
            raise ConfigurationError(f"goal_badges {goal_badges!r}: use a whole number from 1 to {_MOST_BADGES}")
        if max_steps is not None and max_steps < 1:
            raise ConfigurationError(f"max_steps {max_steps}: give at least 1")
        self.headless, self.observation_type = headless, observation_type
        self.goal_badges, self.max_steps, self.weights = goal_badges, max_steps, weights or RewardWeights()
        self.render_mode = "rgb_array" if observation_type != "state" else None
        self.observation_space = _space(observation_type)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self.rom_path = _known_rom(rom_path)
        game = self._open_game()
        self._game: EmulatedGames | Twin | None = game
        ends = ExitStack()
        if isinstance(game, EmulatedGames):
            ends.callback(game.close)
        self._close = weakref.finalize(self, ends.close)  # also at the end of the process
        self._state: dict[str, Any] = {}
        self._tiles: set[tuple[int, ...]] = set()
        self._num_steps = 0

    def reset(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first observation and info of an episode, by `seed` or the next of the sequence.

        `options={"state": env.save_state()}` begins there, except in the twin. Raises ConfigurationError for another argument.
        """
        options = kwargs.get("options") or {}
        if not isinstance(options, dict) or not isinstance(options.get("state"), bytes | None):
            raise ConfigurationError(f"reset: options {options!r}: give {{'state': env.save_state()}}, or none")
        if unknown := sorted([*(kwargs.keys() - {"seed", "options"}), *(options.keys() - {"state"})]):
            raise ConfigurationError(
                f"reset: {', '.join(unknown)} is not known; give seed, or options with the key state"
            )
        super().reset(seed=kwargs.get("seed"))
        self._begin(int(self.np_random.integers(np.iinfo(np.int64).max)), options.get("state"))
        self._tiles, self._num_steps, self._state = set(), 0, {}
        self._state = self._next_state(0.0)
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated (the badges are won), truncated (`max_steps`), info."""
        if not self._state:
            raise EnvironmentError("step: the game has not begun; call reset first")
        is_whole = isinstance(action, int | np.integer) or (isinstance(action, np.ndarray) and action.shape == ())
        if isinstance(action, bool) or not is_whole or action not in range(NUM_ACTIONS):
            raise ValueError(f"action {action!r}: use a whole number from 0 to {NUM_ACTIONS - 1}")
        played = self._opened().step(np.array([int(action)]))
        terms = {name: float(values[0]) for name, values in played.terms.items()}
        before, self._num_steps = self._state, self._num_steps + 1
        self._state = self._next_state(sum(value for name, value in terms.items() if name != "step"))
        given = self._calculate_reward(dict(self._state), dict(before), int(action))
        if not isinstance(given, SupportsFloat) or not isfinite(given):
            raise ValueError(f"_calculate_reward returned {given!r}: return a finite number")
        reward = float(given)
        own = reward - sum(terms.values())
        terms |= {"own": own} if abs(own) > 1e-9 else {}
        terminated = self._state["johto_badges"] + self._state["kanto_badges"] >= self.goal_badges
        truncated = not terminated and self.max_steps is not None and self._num_steps >= self.max_steps
        return self._observation(), reward, terminated, truncated, self._info() | {"reward_terms": terms}

    def _calculate_reward(self, current_state: dict[str, Any], previous_state: dict[str, Any], action: int) -> float:
        """What a step earns: the growth of the potential, and the cost of a step. A subclass's result is what `step` returns.

        A state has the facts by name, `visited_tiles`, `visited_maps`, `idle_steps` and `potential`.

        **Example** a new tile and nothing else: .1 - .01 = .09.
        """
        return float(current_state["potential"] - previous_state["potential"] + self.weights.step)

    def render(self) -> NDArray[np.uint8] | None:
        """The last frame; None in the type `state`."""
        return self._screen() if self.render_mode else None

    def action_masks(self) -> Booleans:
        """The actions that are allowed now (9,)."""
        mask_A: Booleans = self._opened().masks()[0]
        return mask_A

    def save_state(self) -> bytes:
        """The game now, for the option `state` of `reset`. Raises EnvironmentError in the twin."""
        game = self._opened()
        if isinstance(game, Twin):
            raise EnvironmentError("save_state: the twin has no save states; use rom_path homebrew")
        return game.save_states()[0]

    def close(self) -> None:
        """Close the emulator; once more does nothing."""
        self._game = None
        self._close()

    def _open_game(self) -> EmulatedGames | Twin:
        has_screen = self.observation_type != "state"
        if self.rom_path == TWIN:
            if has_screen or not self.headless:
                raise ConfigurationError(
                    "rom_path twin: the rules without an emulator have no screen; set observation_type to state and headless "
                    "to true, or rom_path to homebrew"
                )
            return self._twin(0)
        rule = EpisodeRule(max_steps=_ENDLESS, goal_badges=_ENDLESS, weights=self.weights)
        with environment_errors():
            from components.hybrid.game_boy.pyboy_emulator import PyBoyEmulator

            own = self.rom_path == HOMEBREW
            cartridge = homebrew_cartridge() if own else crystal_cartridge(Path(self.rom_path))
            emulator = PyBoyEmulator(cartridge.rom, has_window=not self.headless)
            return EmulatedGames(cartridge, [emulator], seed=0, rule=rule, renders=has_screen or not self.headless)

    def _twin(self, seed: int) -> Twin:
        return Twin(1, seed=seed, max_steps=_ENDLESS, goal_badges=_ENDLESS, weights=self.weights)

    def _begin(self, seed: int, state: bytes | None) -> None:
        game = self._opened()
        if isinstance(game, Twin):
            if state is not None:
                raise EnvironmentError("options state: the twin has no save states; use rom_path homebrew")
            self._game = self._twin(seed)
            return
        with environment_errors():
            game.begin(np.ones(1, np.bool_), seeds_N=np.array([seed]), state=state)

    def _opened(self) -> EmulatedGames | Twin:
        if self._game is None:
            raise EnvironmentError("the environment is closed; make another one")
        return self._game

    def _screen(self) -> NDArray[np.uint8]:
        game = self._opened()
        assert isinstance(game, EmulatedGames), "the twin is refused where a screen is seen"
        screen: NDArray[np.uint8] = game.screens()[0]
        return screen

    def _facts(self) -> dict[str, int]:
        return {name: int(values[0]) for name, values in self._opened().facts.items()}

    def _next_state(self, gained: float) -> dict[str, Any]:
        """The state now; `gained` is what the potential has grown by since the last one."""
        facts, num_tiles = self._facts(), len(self._tiles)
        self._tiles.add(tuple(facts[name] for name in ("map_group", "map_number", "x", "y")))
        progressed = gained > 0 or len(self._tiles) > num_tiles
        return {
            **facts,
            "visited_tiles": len(self._tiles),
            "visited_maps": len({tile[:2] for tile in self._tiles}),
            "idle_steps": 0 if progressed else self._state.get("idle_steps", 0) + 1,
            "potential": self._state.get("potential", 0.0) + gained,
        }

    def _observation(self) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        if self.observation_type != "state":
            parts["screen"] = self._screen()
        if self.observation_type != "screen":
            parts["state_variables"] = state_variables(self._opened().facts)[0]
        if self.observation_type == "multi_modal":
            facts = self._facts()
            parts["strategic_context"] = {
                "current_goal": describe_goal(facts),
                "context_summary": describe_state(facts),
                "action_suggestions": [WORDS[Action(each)] for each in np.flatnonzero(self.action_masks()).tolist()],
            }
        return parts

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks(), "facts": self._facts(), "state": dict(self._state)}


def _known_rom(rom_path: str) -> str:
    """The path of a ROM, or the name of one of ours; a file that is ours by its content is "homebrew"."""
    rom = Path(expanduser(rom_path))
    if not str(rom_path) or rom.is_dir():
        raise ConfigurationError(f"rom_path {str(rom_path)!r}: is no file; give that of a ROM, homebrew or twin")
    if rom.is_file():
        with environment_errors():
            return HOMEBREW if rom.read_bytes() == homebrew_cartridge().rom else str(rom)
    return str(rom)


def _space(observation_type: str) -> "spaces.Dict":
    text = spaces.Text(_LONGEST_TEXT, charset=string.printable)
    context = {"current_goal": text, "context_summary": text, "action_suggestions": _Texts(text)}
    parts: dict[str, spaces.Space[Any]] = {
        "screen": spaces.Box(0, 255, SCREEN_SHAPE, np.uint8),
        "state_variables": spaces.Box(0, 1, (len(STATE_VARIABLES),), np.float32),
        "strategic_context": spaces.Dict(context),
    }
    names = {"multi_modal": tuple(parts), "screen": ("screen",), "state": ("state_variables",)}[observation_type]
    return spaces.Dict({name: parts[name] for name in names})
