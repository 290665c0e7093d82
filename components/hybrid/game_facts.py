"""What is known of N games at once: named whole numbers, the nine actions and which of them make sense, what a policy sees, its
25 state variables or the greys of the screen, and what a step brings.

Axes: N games, S state variables, A actions; B rows, H and W rows and columns of a picture.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.errors import ArtifactCorrupt

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Facts = Mapping[str, Integers]
"""The value of each fact in each game (N,)."""


class Action(IntEnum):
    """The buttons of a Game Boy; NONE presses nothing."""

    A = 0
    B = 1
    START = 2
    SELECT = 3
    UP = 4
    DOWN = 5
    LEFT = 6
    RIGHT = 7
    NONE = 8


NUM_ACTIONS = len(Action)
LARGEST = {
    "map_group": 26,
    "map_number": 255,
    "x": 255,
    "y": 255,
    "facing": 12,  # 0 down, 4 up, 8 left, 12 right
    "player_state": 8,
    "environment": 7,
    "party_count": 6,
    "party_levels": 600,
    "party_alive": 6,
    "party_hp": 5994,
    "party_max_hp": 5994,
    "species": 251,
    "level": 100,
    "exp": 0xFFFFFF,
    "hp": 999,
    "max_hp": 999,
    "status": 255,
    "money": 999_999,
    "johto_badges": 8,
    "kanto_badges": 8,
    "battle_mode": 2,  # 0 none, 1 wild, 2 trainer
    "enemy_level": 100,
    "enemy_hp": 999,
    "enemy_max_hp": 999,
    "events": 2048,
    "caught": 251,
    "menu": 255,  # open windows
    "script": 255,  # not 0 while the game talks
    "time_of_day": 3,
    "potions": 99,
}
"""Every fact and its largest value; the smallest is 0. Badges are counted; species to max_hp are of the first of the party."""
STATE_VARIABLES = (
    *("x", "y", "map_group", "map_number", "facing", "player_state", "environment", "party_count", "species", "level"),
    *("hp_share", "party_hp_share", "has_status", "party_levels", "alive_share", "log_money", "johto_badges"),
    *(
        "kanto_badges",
        "battle_mode",
        "enemy_level",
        "enemy_hp_share",
        "events",
        "caught",
        "menu_or_script",
        "time_of_day",
    ),
)
"""What a policy sees, all from 0 to 1. Positions are plain numbers, not one-hot: they generalise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GamesStep:
    """What a button brought in each game (N,). Games that ended have begun anew, and `states_N_S` is of the new ones: what a
    policy sees, the state variables, or the greys of the screen (N, 72, 80).

    `ended_N` is the badge, `cut_N` the limit of steps: an episode that is cut had more to come. `final_states_N_S` and
    `final_facts` are those before a new beginning; `starter_N` and `lengths_N` are of the episodes up to this step.
    """

    states_N_S: NDArray[np.float32] | NDArray[np.uint8]
    final_states_N_S: NDArray[np.float32] | NDArray[np.uint8]
    final_facts: Facts
    rewards_N: Floats
    terms: dict[str, Floats]
    ended_N: Booleans
    cut_N: Booleans
    starter_N: Booleans
    lengths_N: Integers


def no_facts(num_games: int) -> dict[str, Integers]:
    """All facts of that many games, each 0 (N,)."""
    return {name: np.zeros(num_games, np.int64) for name in LARGEST}


def state_variables(facts: Facts) -> NDArray[np.float32]:
    """The 25 state variables (N, S), in the order of `STATE_VARIABLES`, all from 0 to 1.

    A fact is divided by its largest value, a share by its whole, and money is `log(1 + money) / log(1 + 999999)`. What the
    memory still holds of an enemy after a battle is 0 here.

    **Example** x 4 is 4/255 = .0157; 15 of 20 hp are .75; 3000 of money are .5796.
    """
    in_battle = facts["battle_mode"] > 0
    derived = {
        "hp_share": _share(facts["hp"], facts["max_hp"]),
        "party_hp_share": _share(facts["party_hp"], facts["party_max_hp"]),
        "has_status": facts["status"] > 0,
        "alive_share": _share(facts["party_alive"], facts["party_count"]),
        "log_money": np.log1p(facts["money"]) / np.log1p(LARGEST["money"]),
        "enemy_level": in_battle * facts["enemy_level"] / LARGEST["enemy_level"],
        "enemy_hp_share": in_battle * _share(facts["enemy_hp"], facts["enemy_max_hp"]),
        "menu_or_script": (facts["menu"] > 0) | (facts["script"] > 0),
    }
    columns = [derived[name] if name in derived else facts[name] / LARGEST[name] for name in STATE_VARIABLES]
    variables_N_S: NDArray[np.float32] = np.clip(np.stack(columns, axis=-1), 0, 1).astype(np.float32)
    return variables_N_S


def _share(part_N: Integers, whole_N: Integers) -> Floats:
    """The parts of the wholes; 0 of nothing."""
    return part_N / np.maximum(whole_N, 1)


def action_masks(facts: Facts) -> Booleans:
    """Whether each action is allowed in each game (N, A); NONE always is, so that no mask is empty.

    While the game talks: A, B and NONE. In a battle: all but START and SELECT, since its menus need directions. In a menu: all
    but SELECT. In the world: all but SELECT.

    **Example** in the world (1, 1, 1, 0, 1, 1, 1, 1, 1), in a battle (1, 1, 0, 0, 1, 1, 1, 1, 1), in a dialogue
    (1, 1, 0, 0, 0, 0, 0, 0, 1).
    """
    allowed_N_A = np.ones((len(facts["battle_mode"]), NUM_ACTIONS), np.bool_)
    allowed_N_A[:, Action.SELECT] = False
    allowed_N_A[facts["battle_mode"] > 0, Action.START] = False
    talking_N = (facts["script"] > 0) & (facts["battle_mode"] == 0)
    allowed_N_A[np.ix_(talking_N, [Action.START, Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT])] = False
    return allowed_N_A


GREYS_SHAPE = (72, 80)
"""Rows and columns of what is seen."""
_WORD_BYTES = 8


def grey_screens(screens_N_H_W_3: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The greys of screens (N, 72, 80): each the mean of two by two points of three colours, rounded down.

    **Example** two points of (255, 255, 255) and two of (0, 0, 0): 127.
    """
    colours_N_H_W = screens_N_H_W_3[..., 0].astype(np.uint16)
    for colour in (1, 2):
        colours_N_H_W += screens_N_H_W_3[..., colour]
    rows_N_H_W = colours_N_H_W[:, ::2] + colours_N_H_W[:, 1::2]
    greys_N_H_W: NDArray[np.uint8] = ((rows_N_H_W[..., ::2] + rows_N_H_W[..., 1::2]) // 12).astype(np.uint8)
    return greys_N_H_W


def pack_screens(greys_B_H_W: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Screens in as few whole numbers as they compress to, for `unpack_screens`.

    **Example** 2,048 screens of the homebrew cartridge: 11.8 MB, packed a twentieth or less.
    """
    packed = zlib.compress(np.ascontiguousarray(greys_B_H_W).tobytes(), 1)
    return np.frombuffer(packed + bytes(-len(packed) % _WORD_BYTES), np.int64)


def unpack_screens(packed: NDArray[Any], num_screens: int) -> NDArray[np.uint8]:
    """The screens that were packed. Raises ArtifactCorrupt unless there are so many."""
    shape = (num_screens, *GREYS_SHAPE)
    num_bytes = int(np.prod(shape))
    try:
        raw = zlib.decompressobj().decompress(packed.astype(np.int64).tobytes(), num_bytes + 1)
    except zlib.error as error:
        raise ArtifactCorrupt(f"{num_screens} packed screens: {error}") from error
    if len(raw) != num_bytes:
        raise ArtifactCorrupt(f"{num_screens} packed screens: they unpack to {len(raw)} bytes, not {num_bytes}")
    return np.frombuffer(raw, np.uint8).reshape(shape).copy()
