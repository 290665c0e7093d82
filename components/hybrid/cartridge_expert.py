"""Who knows the way through the homebrew cartridge, to both badges."""

from components.hybrid.cartridge_rules import HILL, ROUTE, TOWN
from components.hybrid.game_facts import Action
from components.hybrid.game_text import Game

_RIGHT, _UP, _DOWN = 12, 4, 0
"""Facings."""


def competent_action(game: Game) -> Action:
    """The next button on the way to the starter, the first badge, level 15 and the second badge of the homebrew cartridge.

    **Example** in a new game at (4, 5): LEFT.
    """
    if game["battle_mode"]:
        return Action.A
    if game["menu"] or game["script"]:
        return Action.B
    if not game["party_count"]:
        return _action_to_starter(game)
    if game["map_number"] == HILL or (game["map_number"] == ROUTE and game["johto_badges"]):
        return _action_after_first_badge(game)
    if game["map_number"] == TOWN and game["x"] <= 2 and game["y"] in (3, 4):
        return Action.DOWN  # around the house
    if (game["map_number"] != TOWN or game["x"] > 4) and game["y"] != 4:
        return Action.UP if game["y"] > 4 else Action.DOWN
    return Action.A if game["map_number"] != TOWN and game["x"] == 7 and game["facing"] == _RIGHT else Action.RIGHT


def _action_to_starter(game: Game) -> Action:
    if game["y"] > 2:
        return Action.LEFT if game["x"] in (3, 4) else Action.UP
    return Action.LEFT if game["x"] > 1 else Action.A if game["facing"] == _UP else Action.UP


def _action_after_first_badge(game: Game) -> Action:
    """South to the hill, up and down its grass until level 15, then to the second gym."""
    if game["map_number"] == ROUTE:
        return Action.DOWN if game["x"] == 2 else Action.RIGHT if game["x"] < 2 else Action.LEFT
    if game["level"] < 15:
        return Action.DOWN if game["y"] < 3 or (game["y"] == 3 and game["facing"] == _DOWN) else Action.UP
    if game["y"] < 7:
        return Action.DOWN
    return Action.RIGHT if game["x"] < 8 else Action.A if game["facing"] == _DOWN else Action.DOWN
