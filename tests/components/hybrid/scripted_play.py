"""Scripted players of the twin, whom tests share: one that knows the way to the badge, and one that presses anything."""

import numpy as np
from numpy.typing import NDArray

from components.hybrid.cartridge_rules import TOWN
from components.hybrid.game_facts import Action, Booleans, Facts


def competent_actions(facts: Facts) -> NDArray[np.int64]:
    """The next button on the way to the starter and the badge in each game (N,)."""
    games = [dict(zip(facts, values, strict=True)) for values in zip(*facts.values(), strict=True)]
    return np.array([_competent_action(game) for game in games])


def _competent_action(game: dict[str, int]) -> Action:
    if game["battle_mode"]:
        return Action.A
    if game["menu"]:
        return Action.B
    if not game["party_count"]:
        if game["y"] > 2:
            return Action.LEFT if game["x"] in (3, 4) else Action.UP
        return Action.LEFT if game["x"] > 1 else Action.A if game["facing"] == 4 else Action.UP
    if game["map_number"] == TOWN and game["x"] <= 2 and game["y"] in (3, 4):
        return Action.DOWN  # around the house
    if (game["map_number"] != TOWN or game["x"] > 4) and game["y"] != 4:
        return Action.UP if game["y"] > 4 else Action.DOWN
    return Action.A if game["map_number"] != TOWN and game["x"] == 7 and game["facing"] == 12 else Action.RIGHT


def random_actions(rng: np.random.Generator, masks_N_A: Booleans) -> NDArray[np.int64]:
    """A random allowed button in each game (N,)."""
    return np.array([rng.choice(np.flatnonzero(mask_A)) for mask_A in masks_N_A])
