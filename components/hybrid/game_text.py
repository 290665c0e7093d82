"""A game in words: where the player is, what to do next, and the phase in which actors are compared.

The words are what a language model reads, what its answers are kept by, and what a decision is remembered under: equal words
are one state. So they leave out what changes without meaning, as experience and money do.
"""

from collections.abc import Iterator, Mapping

from components.hybrid.cartridge_rules import HILL, HOMEBREW_GROUP, ROUTE, TOWN
from components.hybrid.game_facts import Facts

Game = Mapping[str, int]
"""The facts of one game."""
_PLACES = {TOWN: "the town", ROUTE: "the route", HILL: "the hill"}
_FACINGS = {0: "down", 4: "up", 8: "left", 12: "right"}
_LEVEL_FOR_SECOND_GYM = 15


def split_games(facts: Facts) -> Iterator[dict[str, int]]:
    """The facts of each game, one after another."""
    for values in zip(*(values_N.tolist() for values_N in facts.values()), strict=True):
        yield dict(zip(facts, values, strict=True))


def describe_state(game: Game) -> str:
    """One or two sentences about a game, without its goal.

    **Example** "You are in the town at column 4, row 5, facing down. You have no party."
    """
    where = place_name(game["map_group"], game["map_number"])
    place = (
        f"You are in {where} at column {game['x']}, row {game['y']}, facing {_FACINGS.get(game['facing'], 'nowhere')}."
    )
    party = f"Your level is {game['level']}, you are {_health(game['hp'], game['max_hp'])}."
    if game["battle_mode"]:
        kind = "a trainer" if game["battle_mode"] == 2 else "a wild enemy"
        enemy = f"of level {game['enemy_level']}, {_health(game['enemy_hp'], game['enemy_max_hp'])}"
        return f"You fight {kind} {enemy}. {party} A attacks, B flees."
    if game["script"]:
        return f"{place} Somebody talks; A or B goes on."
    if game["menu"]:
        return f"{place} The menu is open; B shuts it."
    badges = game["johto_badges"] + game["kanto_badges"]
    return f"{place} {party if game['party_count'] else 'You have no party.'} Badges: {badges}."


def describe_goal(game: Game) -> str:
    """What to do next: on our own cartridge with the way there, elsewhere the next badge."""
    if game["battle_mode"]:
        return "win the battle"
    if not game["party_count"]:
        return (
            "take your first monster from the table at column 1, row 1: stand below it, face up, press A"
            if game["map_group"] == HOMEBREW_GROUP
            else "get your first monster"
        )
    if game["map_group"] != HOMEBREW_GROUP or game["johto_badges"] > 1:
        return f"win badge {game['johto_badges'] + 1}"
    return _way_to_badge(game)


def phase_name(game: Game) -> str:
    """In which part of the game actors are compared: a battle, the time before the first monster, or a map with these badges.

    **Example** "battle", "start", "map 24.3, 1 badges".
    """
    if game["battle_mode"]:
        return "battle" if game["battle_mode"] == 1 else "trainer battle"
    if not game["party_count"]:
        return "start"
    return f"map {game['map_group']}.{game['map_number']}, {game['johto_badges'] + game['kanto_badges']} badges"


def _way_to_badge(game: Game) -> str:
    place, is_second = game["map_number"], game["johto_badges"] == 1
    if place == TOWN:
        return "leave the town by its exit in the east, at column 9, row 4"
    if not is_second:
        return (
            "go to the gym at column 8, row 4: stand left of it, face right, press A"
            if place == ROUTE
            else "go back north to the route, by the exit at column 2, row 0"
        )
    if place == ROUTE:
        return "leave the route by its exit in the south, at column 2, row 8"
    if game["level"] < _LEVEL_FOR_SECOND_GYM:
        return f"walk in the grass of rows 2 to 6 and win battles until level {_LEVEL_FOR_SECOND_GYM}"
    return "go to the gym at column 8, row 8: stand above it, face down, press A"


def place_name(map_group: int, map_number: int) -> str:
    """A map in words. **Example** "the town", "map 3.1"."""
    named = _PLACES.get(map_number) if map_group == HOMEBREW_GROUP else None
    return named or f"map {map_group}.{map_number}"


def _health(hp: int, max_hp: int) -> str:
    share = hp / max(1, max_hp)
    return "nearly beaten" if share < 1 / 3 else "hurt" if share < 2 / 3 else "healthy"
