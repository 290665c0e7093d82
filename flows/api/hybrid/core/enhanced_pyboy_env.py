"""The documented environment over the games of `components/hybrid`; it needs Gymnasium, of the extra `hybrid`."""

import string
import weakref
from math import isfinite
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from components.errors import ConfigurationError, ServiceMissing
from components.hybrid.errors import RomMissing, WrongRom
from components.hybrid.game_boy.cartridges import homebrew_cartridge
from components.hybrid.game_boy.emulator import SCREEN_SHAPE
from components.hybrid.game_facts import NUM_ACTIONS, STATE_VARIABLES, Action, Booleans
from components.hybrid.game_text import describe_goal, describe_state
from components.hybrid.language_model import WORDS
from components.hybrid.rewards import RewardWeights
from components.hybrid.single_game import HOMEBREW, TWIN, SingleGame
from components.machine.package_files import install_command
from flows.api.fields import AnyPath, Count, check_arguments
from flows.api.hybrid.configs import ObservationType
from flows.api.hybrid.core.exceptions import EnvironmentError

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    remedy = install_command("extras", "'troupe[hybrid]'")
    raise ServiceMissing(f"gymnasium is not installed: {remedy}") from error

_LONGEST_TEXT = 300


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

    @check_arguments
    def __init__(
        self,
        rom_path: AnyPath,
        headless: bool = True,
        observation_type: ObservationType = "multi_modal",
        *,
        goal_badges: Annotated[int, Field(ge=1, le=16, strict=True)] = 2,
        max_steps: Count | None = None,
        weights: RewardWeights | None = None,
    ) -> None:
        """Raises EnvironmentError without the ROM, the emulator or a screen, ConfigurationError for values that are none."""
        self.headless, self.observation_type = headless, observation_type
        self.goal_badges, self.max_steps, self.weights = goal_badges, max_steps, weights or RewardWeights()
        self.render_mode = "rgb_array" if observation_type != "state" else None
        self.observation_space = _space(observation_type)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self.rom_path = _find_rom(rom_path)
        has_screen = observation_type != "state"
        if self.rom_path == TWIN and (has_screen or not headless):
            raise ConfigurationError(
                "rom_path twin: the rules without an emulator have no screen; set observation_type to state and headless to "
                "true, or rom_path to homebrew"
            )
        try:
            game = SingleGame(self.rom_path, weights=self.weights, renders=has_screen, has_window=not headless)
        except (RomMissing, WrongRom, ServiceMissing) as error:
            raise EnvironmentError(str(error)) from error
        self._game: SingleGame | None = game
        self._close = weakref.finalize(self, game.close)  # also at the end of the process
        self._state: dict[str, Any] = {}
        self._num_steps = 0

    def reset(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first observation and info of an episode, by `seed` or the next of the sequence. Of Gymnasium's other argument,
        `options`, there are none. Raises ConfigurationError for any."""
        if unknown := sorted(name for name, value in kwargs.items() if name != "seed" and (name != "options" or value)):
            raise ConfigurationError(f"reset: {', '.join(unknown)} is not known; give seed, or nothing")
        super().reset(seed=kwargs.get("seed"))
        game = self._require_game()
        game.begin(int(self.np_random.integers(np.iinfo(np.int64).max)))
        self._num_steps, self._state = 0, game.state
        return self._observe(), self._describe()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated (the badges are won), truncated (`max_steps`), info."""
        if not self._state:
            raise EnvironmentError("step: the game has not begun; call reset first")
        if isinstance(action, bool) or not self.action_space.contains(action):
            raise ValueError(f"action {action!r}: use a whole number from 0 to {NUM_ACTIONS - 1}")
        before, game = self._state, self._require_game()
        terms = game.press(int(action))
        self._state, self._num_steps = game.state, self._num_steps + 1
        given = self._calculate_reward(dict(self._state), dict(before), int(action))
        if not isinstance(given, SupportsFloat) or not isfinite(given):
            raise ValueError(f"_calculate_reward returned {given!r}: return a finite number")
        reward = float(given)
        own = reward - sum(terms.values())
        terms |= {"own": own} if abs(own) > 1e-9 else {}
        terminated = self._state["johto_badges"] + self._state["kanto_badges"] >= self.goal_badges
        truncated = not terminated and self.max_steps is not None and self._num_steps >= self.max_steps
        return self._observe(), reward, terminated, truncated, self._describe() | {"reward_terms": terms}

    def _calculate_reward(self, current_state: dict[str, Any], previous_state: dict[str, Any], action: int) -> float:
        """What a step earns: the growth of the potential, and the cost of a step. A subclass's result is what `step` returns.

        A state has the facts by name, `visited_tiles`, `visited_maps`, `idle_steps` and `potential`.

        **Example** a new tile and nothing else: .1 - .01 = .09.
        """
        return float(current_state["potential"] - previous_state["potential"] + self.weights.step)

    def render(self) -> NDArray[np.uint8] | None:
        """The last frame; None in the type `state`."""
        return self._require_game().screen if self.render_mode else None

    def action_masks(self) -> Booleans:
        """The actions that are allowed now (9,)."""
        return self._require_game().mask_A

    def close(self) -> None:
        """Close the emulator; once more does nothing."""
        self._game = None
        self._close()

    def _require_game(self) -> SingleGame:
        if self._game is None:
            raise EnvironmentError("the environment is closed; make another one")
        return self._game

    def _observe(self) -> dict[str, Any]:
        parts, game = dict[str, Any](), self._require_game()
        if self.observation_type != "state":
            parts["screen"] = game.screen
        if self.observation_type != "screen":
            parts["state_variables"] = game.variables_S
        if self.observation_type == "multi_modal":
            parts["strategic_context"] = {
                "current_goal": describe_goal(game.facts),
                "context_summary": describe_state(game.facts),
                "action_suggestions": [WORDS[Action(each)] for each in np.flatnonzero(game.mask_A).tolist()],
            }
        return parts

    def _describe(self) -> dict[str, Any]:
        game = self._require_game()
        return {"action_mask": game.mask_A, "facts": game.facts, "state": dict(self._state)}


def _find_rom(rom_path: str | Path) -> str:
    """The path of a ROM, or the name of one of ours; a file that is ours by its content is "homebrew"."""
    rom = Path(expanduser(rom_path))
    if rom.is_dir():
        raise ConfigurationError(f"rom_path {str(rom_path)!r}: is no file; give that of a ROM, homebrew or twin")
    return HOMEBREW if rom.is_file() and rom.read_bytes() == homebrew_cartridge().rom else str(rom)


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
