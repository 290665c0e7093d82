"""PyBoy without window and sound as an `Emulator`; the only module that imports it."""

import io
import threading
import time
import warnings
import weakref
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.errors import ServiceMissing
from components.hybrid.episodes import EpisodeRule, Snapshot
from components.hybrid.game_boy.cartridges import Cartridge, crystal_cartridge, homebrew_cartridge
from components.hybrid.game_boy.emulator import open_state, seal_state
from components.hybrid.game_boy.games import EmulatedGames
from components.hybrid.game_facts import Action, GamesStep, Integers
from components.machine.package_files import install_command

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns which SDL it uses, and a warning may be an error
        from pyboy import PyBoy
except ImportError as error:
    remedy = install_command("extras", "'troupe[hybrid]'")
    raise ServiceMissing(f"the emulator PyBoy is not installed: {remedy}") from error

_BANKED = range(0xD000, 0xE000)
_NUM_BANKS = 8
_HIGH_RAM = (0xFF80, 0xFFFF)
_WITHOUT_SCREEN = ("dummy", "offscreen", "none")


class PyBoyEmulator:
    """A cartridge in memory: no file is read or written, the battery of a cartridge neither.

    With `has_window` the frames that are drawn are shown, and keys do nothing. Raises ServiceMissing where there is no screen.
    """

    def __init__(self, rom: bytes, *, has_window: bool = False) -> None:
        self._rom = rom
        window = "SDL2" if has_window else "null"
        self._boy: Any = PyBoy(io.BytesIO(rom), window=window, no_input=True, sound_emulated=False, log_level="ERROR")
        self._boy.set_emulation_speed(0)
        if has_window and (driver := _video_driver()) in _WITHOUT_SCREEN:
            self.close()
            raise ServiceMissing(
                f"a window of PyBoy would not be seen (SDL draws {driver}): "
                "start it where there is a screen, which DISPLAY names"
            )

    def run(self, frames: int, *, render: bool) -> None:
        self._boy.tick(frames, render, False)

    def push(self, action: Action) -> None:
        if action != Action.NONE:
            self._boy.button_press(action.name.lower())

    def release(self, action: Action) -> None:
        if action != Action.NONE:
            self._boy.button_release(action.name.lower())

    def read(self, bank: int, address: int, num_bytes: int) -> bytes:
        memory, end = self._boy.memory, address + num_bytes
        return bytes(memory[bank, address:end] if address in _BANKED else memory[address:end])

    def write(self, address: int, value: bytes) -> None:
        assert address not in _BANKED, f"{address:x} is in a bank"
        for place, byte in enumerate(value, address):
            self._boy.memory[place] = byte

    def memory(self) -> bytes:
        memory = self._boy.memory
        first = bytes(memory[0xC000 : _BANKED.start])
        # The last byte of a bank is beyond what PyBoy reads as a slice.
        banks = [
            bytes([*memory[bank, _BANKED.start : _BANKED.stop - 1], memory[bank, _BANKED.stop - 1]])
            for bank in range(1, _NUM_BANKS)
        ]
        return b"".join([first, *banks, bytes(memory[slice(*_HIGH_RAM)])])

    def screen(self) -> NDArray[np.uint8]:
        frame: NDArray[np.uint8] = self._boy.screen.ndarray
        return frame[:, :, :3].copy()

    def save_state(self) -> bytes:
        file = io.BytesIO()
        self._boy.save_state(file)
        return seal_state(file.getvalue(), self._rom)

    def load_state(self, state: bytes) -> None:
        self._boy.load_state(io.BytesIO(open_state(state, self._rom)))

    def close(self) -> None:
        self._boy.stop(save=False)


def _video_driver() -> str:
    """How SDL shows windows. **Example** "x11", "offscreen"."""
    import sdl2  # type: ignore[import-untyped]

    driver: bytes | None = sdl2.SDL_GetCurrentVideoDriver()
    return "none" if driver is None else driver.decode()


_ENDLESS = 1_000_000
_WATCHED_SECONDS = 0.1
"""Between buttons that a person sees in a window."""


def one_game(rom: Path | None, *, has_window: bool) -> "OneGame":
    """The game of a thread on our own cartridge, or on the user's copy of Crystal.

    Raises RomMissing, WrongRom, and ServiceMissing without the emulator or, for a window, without a screen.
    """
    return _open_game(rom, has_window, threading.get_ident())


class OneGame(EmulatedGames):
    """A game without end. Equal snapshots and buttons give equal snapshots, whatever was played between.

    To restore the snapshot at which it stands costs nothing: the questions of a turn are asked at one.
    """

    def __init__(self, cartridge: Cartridge, *, has_window: bool) -> None:
        self._has_window = has_window
        self._stands_at: Snapshot | None = None
        emulator = PyBoyEmulator(cartridge.rom, has_window=has_window)
        rule = EpisodeRule(max_steps=_ENDLESS, goal_badges=_ENDLESS)
        super().__init__(cartridge, [emulator], seed=0, rule=rule, renders=has_window)
        weakref.finalize(self, emulator.close)  # before the interpreter ends: an emulator that ends with it complains

    def start_at_seed(self, seed: int) -> Snapshot:
        """The game at its start, with the chance of this seed."""
        self._stands_at = None
        self._episodes_N[:] = 0
        self.begin(np.ones(1, np.bool_), seeds_N=np.array([seed]))
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """Where the game stands."""
        self._stands_at = super().snapshot()
        return self._stands_at

    def restore(self, snapshot: Snapshot) -> None:
        """Stand where this snapshot does. Raises what `EmulatedGames.restore` raises."""
        if snapshot is not self._stands_at:
            self._stands_at = None
            super().restore(snapshot)
            self._stands_at = snapshot

    def step(self, actions_N: Integers) -> GamesStep:
        """What a button brings, at the pace of a person where there is a window."""
        self._stands_at = None
        if self._has_window:
            time.sleep(_WATCHED_SECONDS)
        return super().step(actions_N)


@lru_cache(maxsize=8)
def _open_game(rom: Path | None, has_window: bool, thread: int) -> OneGame:
    return OneGame(homebrew_cartridge() if rom is None else crystal_cartridge(rom), has_window=has_window)
