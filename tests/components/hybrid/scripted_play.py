"""Scripted players of the twin, whom tests share: one that knows the way to the badge, and one that presses anything."""

import numpy as np
from numpy.typing import NDArray

from components.hybrid.cartridge_rules import HILL, ROUTE, TOWN
from components.hybrid.game_facts import Action, Booleans, Facts

TO_THE_PERSON = [Action[name] for name in (
    *["RIGHT"] * 3, "DOWN", "DOWN", "RIGHT", "A", "START", "B",  # there is no potion without a starter
    "UP", "UP", *["LEFT"] * 6, *["UP"] * 4, "A", "LEFT", "A", *["DOWN"] * 3, *["RIGHT"] * 6, "DOWN", "DOWN",
    "RIGHT", "A", "B", "A", "A", "START", "A", "START",
)]  # fmt: skip
"""The starter, and the potion that a person gives once; drinking it in full health is no use."""


def competent_actions(facts: Facts) -> NDArray[np.int64]:
    """The next button on the way to the starter and the badge in each game (N,)."""
    games = [dict(zip(facts, values, strict=True)) for values in zip(*facts.values(), strict=True)]
    return np.array([_competent_action(game) for game in games])


def _competent_action(game: dict[str, int]) -> Action:
    if game["battle_mode"]:
        return Action.A
    if game["menu"] or game["script"]:
        return Action.B
    if not game["party_count"]:
        if game["y"] > 2:
            return Action.LEFT if game["x"] in (3, 4) else Action.UP
        return Action.LEFT if game["x"] > 1 else Action.A if game["facing"] == 4 else Action.UP
    if game["map_number"] == HILL or (game["map_number"] == ROUTE and game["johto_badges"]):
        return _action_after_first_badge(game)
    if game["map_number"] == TOWN and game["x"] <= 2 and game["y"] in (3, 4):
        return Action.DOWN  # around the house
    if (game["map_number"] != TOWN or game["x"] > 4) and game["y"] != 4:
        return Action.UP if game["y"] > 4 else Action.DOWN
    return Action.A if game["map_number"] != TOWN and game["x"] == 7 and game["facing"] == 12 else Action.RIGHT


def _action_after_first_badge(game: dict[str, int]) -> Action:
    """South to the hill, up and down its grass until level 15, then to the second gym."""
    if game["map_number"] == ROUTE:
        return Action.DOWN if game["x"] == 2 else Action.RIGHT if game["x"] < 2 else Action.LEFT
    if game["level"] < 15:
        return Action.DOWN if game["y"] < 3 or (game["y"] == 3 and game["facing"] == 0) else Action.UP
    if game["y"] < 7:
        return Action.DOWN
    return Action.RIGHT if game["x"] < 8 else Action.A if game["facing"] == 0 else Action.DOWN


def random_actions(rng: np.random.Generator, masks_N_A: Booleans) -> NDArray[np.int64]:
    """A random allowed button in each game (N,)."""
    return np.array([rng.choice(np.flatnonzero(mask_A)) for mask_A in masks_N_A])
