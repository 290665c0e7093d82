"""For tests: games of our cartridge that are closed, and its generator of chance in Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from components.hybrid.game_boy.cartridges import Cartridge, homebrew_cartridge
from components.hybrid.game_boy.games import EmulatedGames
from components.hybrid.game_boy.pyboy_emulator import PyBoyEmulator
from tests.components.hybrid.scripted_play import competent_actions, random_actions

CHANCE = 0xFFE1


@contextmanager
def open_games(num_games: int = 1, *, cartridge: Cartridge | None = None, **options: Any) -> Iterator[EmulatedGames]:
    cartridge = cartridge or homebrew_cartridge()
    emulators = [PyBoyEmulator(cartridge.rom) for _ in range(num_games)]
    games = EmulatedGames(cartridge, emulators, **{"seed": 0} | options)
    try:
        yield games
    finally:
        games.close()


def draws(chance: int, number: int) -> tuple[list[int], int]:
    """The next draws of the cartridge's generator, and its state after them."""
    drawn = []
    for _ in range(number):
        chance ^= chance << 7 & 0xFFFF
        chance ^= chance >> 9
        chance ^= chance << 8 & 0xFFFF
        drawn.append(chance >> 8)
    return drawn, chance


def mix_actions(games: Any, rng: np.random.Generator, competence: float = 0.7) -> Any:
    """Competent ones with that probability, else any that is allowed."""
    anything = random_actions(rng, games.masks())
    return np.where(rng.random(len(anything)) < competence, competent_actions(games.facts), anything)
