"""Where play has been: the tiles that games visited, and how often the policy pressed a button on each, from an experience."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.hybrid.cartridge_rules import FIRST_MAP, HOMEBREW_GROUP, map_rows
from components.hybrid.game_facts import LARGEST, STATE_VARIABLES

if TYPE_CHECKING:
    from components.hybrid.experience import Experience

Place = tuple[int, int]
"""Map group and map number."""
_TWIN_TILES = re.compile(r"games\.(games\.)?_tiles_N_M_Y_X")
_EMULATED_TILES = re.compile(r"games\.(games\.)?tiles\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitedMap:
    """A map of the game. `rows` are its cells as text, () where they are not known.

    `num_presses` counts the buttons that the policy pressed on a tile (x, y) in the step, `num_games` the games whose episode
    had been on it when the step ended.
    """

    place: Place
    rows: tuple[str, ...]
    num_presses: dict[tuple[int, int], int]
    num_games: dict[tuple[int, int], int]


def list_visited_maps(
    experience: "Experience", *, is_homebrew: bool, sees_screens: bool = False
) -> tuple[VisitedMap, ...]:
    """The maps on which a step's games have been, by number. `is_homebrew`: the game is our own cartridge, whose maps are
    known.

    A press of the language model is no row that the policy learns from, so that `num_presses` has none of its. Where the policy
    `sees_screens`, its rows say no place, and there is none at all.

    **Example** 4 games, each once DOWN from the start: 4 presses on (4, 5), and 4 games on (4, 5) and on (4, 6).
    """
    presses = _Tiles() if sees_screens else _presses(experience.rollout.to_arrays()["states_B_S"])
    games = _games(experience.after.to_arrays())
    places = sorted({place for place, _ in (*presses, *games)})
    return tuple(
        VisitedMap(
            place=place,
            rows=map_rows(place[1]) if is_homebrew else (),
            num_presses={tile: count for (there, tile), count in presses.items() if there == place},
            num_games={tile: count for (there, tile), count in games.items() if there == place},
        )
        for place in places
    )


_Tiles = Counter[tuple[Place, tuple[int, int]]]


def _presses(states_B_S: NDArray[Any]) -> _Tiles:
    names = ("map_group", "map_number", "x", "y")
    columns = [np.rint(states_B_S[:, STATE_VARIABLES.index(name)] * LARGEST[name]).astype(np.int64) for name in names]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Counter(((group, number), (x, y)) for group, number, x, y in rows)


def _games(after: dict[str, NDArray[Any]]) -> _Tiles:
    found: _Tiles = Counter()
    for name, values in after.items():
        if _TWIN_TILES.fullmatch(name):
            for _, number, y, x in np.argwhere(values).tolist():
                found[(HOMEBREW_GROUP, FIRST_MAP + number), (x, y)] += 1
        elif _EMULATED_TILES.fullmatch(name):
            found.update(((group, number), (x, y)) for group, number, x, y in values.tolist())
    return found
