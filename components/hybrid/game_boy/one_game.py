"""One emulated game of this thread, which goes on from whatever snapshot is asked for."""

import threading
import time
import weakref
from functools import lru_cache
from pathlib import Path

import numpy as np

from components.hybrid.episodes import EpisodeRule, Snapshot
from components.hybrid.game_boy.cartridges import Cartridge, crystal_cartridge, homebrew_cartridge
from components.hybrid.game_boy.games import EmulatedGames
from components.hybrid.game_boy.pyboy_emulator import PyBoyEmulator
from components.hybrid.game_facts import GamesStep, Integers

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
