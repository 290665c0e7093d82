"""Players of the twin, whom tests share: one that knows the way to the badge, and one that presses anything."""

import numpy as np
from numpy.typing import NDArray

from components.hybrid.game_environment import competent_action
from components.hybrid.game_facts import Action, Booleans, Facts
from components.hybrid.game_text import split_games

TO_THE_PERSON = [Action[name] for name in (
    *["RIGHT"] * 3, "DOWN", "DOWN", "RIGHT", "A", "START", "B",  # there is no potion without a starter
    "UP", "UP", *["LEFT"] * 6, *["UP"] * 4, "A", "LEFT", "A", *["DOWN"] * 3, *["RIGHT"] * 6, "DOWN", "DOWN",
    "RIGHT", "A", "B", "A", "A", "START", "A", "START",
)]  # fmt: skip
"""The starter, and the potion that a person gives once; drinking it in full health is no use."""


def competent_actions(facts: Facts) -> NDArray[np.int64]:
    """The next button on the way to the starter and the badges in each game (N,)."""
    return np.array([competent_action(game) for game in split_games(facts)])


def random_actions(rng: np.random.Generator, masks_N_A: Booleans) -> NDArray[np.int64]:
    """A random allowed button in each game (N,)."""
    return np.array([rng.choice(np.flatnonzero(mask_A)) for mask_A in masks_N_A])
