"""One game behind one interface: a cartridge on the emulator, or the rules of ours in NumPy."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from components.hybrid.action_masks import action_masks
from components.hybrid.game_boy.cartridges import Cartridge, crystal_cartridge, homebrew_cartridge
from components.hybrid.game_facts import Booleans, Facts, state_variables
from components.hybrid.rewards import RewardWeights
from components.hybrid.twin import Twin
from flows.api.hybrid.core.exceptions import EnvironmentError, environment_errors

HOMEBREW, TWIN = "homebrew", "twin"
_ENDLESS = 1_000_000_000
"""Steps and badges that no episode reaches: the environment ends it."""
_ONE = np.ones(1, np.bool_)


class OpenedGame(Protocol):
    """One game that goes on until `begin`."""

    def begin(self, seed: int, state: bytes | None) -> None:
        """Start an episode, from a save state if there is one."""

    def press(self, action: int) -> dict[str, float]:
        """Press a button; what each record, and the step, earned."""

    def facts(self) -> Facts:
        """The facts (1,)."""

    def state_variables(self) -> NDArray[np.float32]:
        """The 25 state variables."""

    def mask(self) -> Booleans:
        """The actions that are allowed now (9,)."""

    def screen(self) -> NDArray[np.uint8]:
        """The last frame (144, 160, 3)."""

    def save_state(self) -> bytes:
        """The game now."""

    def close(self) -> None:
        """Free it."""


def open_game(rom: Path, *, has_window: bool, has_screen: bool, weights: RewardWeights) -> OpenedGame:
    """The game of "homebrew", "twin", or the file of a ROM; a file that is ours is ours, by its content.

    Raises EnvironmentError without the ROM, the emulator or a screen, ConfigurationError where the twin is to be seen.
    """
    if str(rom) == TWIN:
        if has_screen or has_window:
            raise ConfigurationError(
                "rom_path twin: the rules without an emulator have no screen; set observation_type to state and headless to "
                "true, or rom_path to homebrew"
            )
        return _TwinGame(weights)
    with environment_errors():
        own = homebrew_cartridge()
        is_own = str(rom) == HOMEBREW or (rom.is_file() and rom.read_bytes() == own.rom)
        cartridge = own if is_own else crystal_cartridge(rom)
        return _EmulatedGame(cartridge, has_window=has_window, has_screen=has_screen, weights=weights)


class _EmulatedGame:
    def __init__(self, cartridge: Cartridge, *, has_window: bool, has_screen: bool, weights: RewardWeights) -> None:
        from components.hybrid.game_boy.games import EmulatedGames, EpisodeRule
        from components.hybrid.game_boy.pyboy_emulator import PyBoyEmulator

        rule = EpisodeRule(max_steps=_ENDLESS, goal_badges=_ENDLESS, weights=weights)
        emulator = PyBoyEmulator(cartridge.rom, has_window=has_window)
        self._games = EmulatedGames(cartridge, [emulator], seed=0, rule=rule, renders=has_screen or has_window)

    def begin(self, seed: int, state: bytes | None) -> None:
        with environment_errors():
            self._games.begin(_ONE, seeds_N=np.array([seed]), state=state)

    def press(self, action: int) -> dict[str, float]:
        terms = self._games.play(np.array([action])).terms
        return {name: float(values[0]) for name, values in terms.items()}

    def facts(self) -> Facts:
        return self._games.facts

    def state_variables(self) -> NDArray[np.float32]:
        states_S: NDArray[np.float32] = self._games.states()[0]
        return states_S

    def mask(self) -> Booleans:
        mask_A: Booleans = self._games.masks()[0]
        return mask_A

    def screen(self) -> NDArray[np.uint8]:
        screen: NDArray[np.uint8] = self._games.screens()[0]
        return screen

    def save_state(self) -> bytes:
        return self._games.save_states()[0]

    def close(self) -> None:
        self._games.close()


class _TwinGame:
    def __init__(self, weights: RewardWeights) -> None:
        self._weights = weights
        self.begin(0, None)

    def begin(self, seed: int, state: bytes | None) -> None:
        if state is not None:
            raise EnvironmentError("options state: the twin has no save states; use rom_path homebrew")
        self._twin = Twin(1, seed=seed, max_steps=_ENDLESS, goal_badges=_ENDLESS, weights=self._weights)

    def press(self, action: int) -> dict[str, float]:
        terms = self._twin.step(np.array([action])).terms
        return {name: float(values[0]) for name, values in terms.items()}

    def facts(self) -> Facts:
        return self._twin.facts

    def state_variables(self) -> NDArray[np.float32]:
        states_S: NDArray[np.float32] = state_variables(self._twin.facts)[0]
        return states_S

    def mask(self) -> Booleans:
        mask_A: Booleans = action_masks(self._twin.facts)[0]
        return mask_A

    def screen(self) -> NDArray[np.uint8]:
        raise EnvironmentError("the twin has no screen; use rom_path homebrew")

    def save_state(self) -> bytes:
        raise EnvironmentError("the twin has no save states; use rom_path homebrew")

    def close(self) -> None:
        pass
