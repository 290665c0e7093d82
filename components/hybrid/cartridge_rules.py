"""The rules of the homebrew cartridge (`game_boy/rom/homebrew.c`) in NumPy: what one button does in N games.

A second reading of the same game: an oracle for the emulator, and a fast environment for learners. Chance comes in as an
argument, two draws for each game and button, in the order in which the cartridge draws them. The world is three maps of ten by
nine cells: take the starter in the town, leave to the east, cross the route and win the first badge of its gym; then go south,
where no way leads to the second gym but through grass, and its trainer is too strong for all who have not trained.
"""

import numpy as np

from components.hybrid.game_facts import Action, Booleans, Facts, Integers, no_facts

TOWN, ROUTE, HILL = 4, 3, 2
"""Map numbers."""
FIRST_MAP, NUM_MAPS = HILL, 3
WIDTH, HEIGHT = 10, 9
_MAPS = {
    HILL: ("##N#######", "#........#", *["#,,,,,,,,#"] * 5, "#........#", "########K#"),
    ROUTE: ("##########", *["#....,,,,#"] * 3, "W.......G#", *["#....,,,,#"] * 3, "##S#######"),
    TOWN: (
        *("##########", "#L.......#", "#........#", "#..##....#", "#..##....E", "#........#"),
        *("#....H...#", "#.......P#", "##########"),
    ),
}
"""# wall, . floor, comma grass, L the table with the starter, H healing, P a person, G and K gyms, E, W, S and N exits."""
_CELLS = np.array([[list(row) for row in _MAPS[number]] for number in range(FIRST_MAP, FIRST_MAP + NUM_MAPS)])
"""The cell at [map - FIRST_MAP, y, x]."""
_EXITS = {"E": (ROUTE, 1, 4), "W": (TOWN, 8, 4), "S": (HILL, 2, 1), "N": (ROUTE, 2, 7)}
"""The map, x and y behind each exit."""
_FACINGS = {Action.DOWN: 0, Action.UP: 4, Action.LEFT: 8, Action.RIGHT: 12}
_STEP_X = {8: -1, 12: 1}
_STEP_Y = {4: -1, 0: 1}
HOMEBREW_GROUP = 24
"""The map group of all three."""
_STARTER, _START_MONEY, _POTION_HP = 155, 3000, 20
_GYM_LEVELS = {"G": 9, "K": 20}
_WILD_LEVELS = {ROUTE: 2, HILL: 5}
"""The lowest of each map, of four."""
_LARGEST_LEVEL = 100


def map_rows(number: int) -> tuple[str, ...]:
    """The cells of a map, from the top, as the signs above; () for a number that is none of the maps'."""
    return _MAPS.get(number, ())


def first_facts(num_games: int) -> dict[str, Integers]:
    """The facts of that many games at their start: in the town at (4, 5), with 3000 of money and no party."""
    start = {"map_group": HOMEBREW_GROUP, "map_number": TOWN, "x": 4, "y": 5, "money": _START_MONEY}
    return no_facts(num_games) | {name: np.full(num_games, value, np.int64) for name, value in start.items()}


def play_button(facts: Facts, actions_N: Integers, draws_2_N: Integers) -> dict[str, Integers]:
    """The facts after each game's button, given two draws for each game from 0 to 255 (2, N).

    **Example** level 5, A against a wild enemy of level 3 with 14 hp, draws 3 and 0: it loses 4 + 2 + 3 = 9 hp, and the own hp
    fall by 1 + 1 + 0 = 2.
    """
    after = {name: values.copy() for name, values in facts.items()}
    in_battle_N = facts["battle_mode"] > 0
    talks_N = ~in_battle_N & (facts["script"] > 0)
    after["script"][talks_N & ((actions_N == Action.A) | (actions_N == Action.B))] = 0
    is_free_N = ~in_battle_N & ~talks_N
    opens_or_shuts_N = is_free_N & (actions_N == Action.START)
    in_menu_N = is_free_N & (facts["menu"] > 0)
    after["menu"] = np.where(opens_or_shuts_N, facts["menu"] == 0, facts["menu"]).astype(np.int64)
    after["menu"][in_menu_N & (actions_N == Action.B)] = 0
    _drink(after, in_menu_N & (actions_N == Action.A))
    in_world_N = is_free_N & ~in_menu_N & ~opens_or_shuts_N
    _fight(after, in_battle_N & (actions_N == Action.A), in_battle_N & (actions_N == Action.B), draws_2_N)
    _turn(after, in_world_N, actions_N)
    target_x_N, target_y_N, target_N = _cell_ahead(after)
    _touch(after, in_world_N & (actions_N == Action.A), target_N)
    moves_N = in_world_N & np.isin(actions_N, list(_FACINGS))
    _walk(after, moves_N, target_N, target_x_N, target_y_N, draws_2_N)
    return after | _party_of_one(after)


def _drink(facts: dict[str, Integers], drinks_N: Booleans) -> None:
    """The A button in the menu: the potion, where it helps."""
    helped_N = drinks_N & (facts["potions"] > 0) & (facts["hp"] < facts["max_hp"])
    _set(facts, helped_N, hp=np.minimum(facts["hp"] + _POTION_HP, facts["max_hp"]), potions=0)


def _fight(facts: dict[str, Integers], attacks_N: Booleans, flees_N: Booleans, draws_2_N: Integers) -> None:
    damage_N = 4 + (facts["level"] >> 1) + (draws_2_N[0] & 3)
    facts["enemy_hp"] = np.where(attacks_N, np.maximum(facts["enemy_hp"] - damage_N, 0), facts["enemy_hp"])
    won_N = attacks_N & (facts["enemy_hp"] == 0)
    trainer_N = facts["battle_mode"] == 2
    facts["johto_badges"] += won_N & trainer_N
    facts["events"] += won_N & trainer_N
    facts["money"] += won_N * facts["enemy_level"] * np.where(trainer_N, 60, 10)
    _gain(facts, won_N * facts["enemy_level"] * 8)
    escaped_N = flees_N & ~trainer_N & (draws_2_N[0] & 1 == 1)
    hurt_N = (attacks_N | flees_N) & ~won_N & ~escaped_N
    taken_N = 1 + (facts["enemy_level"] >> 1) + (np.where(attacks_N | ~trainer_N, draws_2_N[1], draws_2_N[0]) & 1)
    facts["hp"] = np.where(hurt_N, np.maximum(facts["hp"] - taken_N, 0), facts["hp"])
    beaten_N = hurt_N & (facts["hp"] == 0)
    # The cartridge halves the lower two of the three bytes of money alone.
    halved_N = facts["money"] & ~0xFFFF | (facts["money"] & 0xFFFF) >> 1
    _set(facts, beaten_N, map_number=TOWN, x=5, y=5, money=halved_N, hp=facts["max_hp"])
    _set(facts, won_N | escaped_N | beaten_N, battle_mode=0)
    _set(facts, (won_N & trainer_N) | beaten_N, script=1)


def _gain(facts: dict[str, Integers], exp_N: Integers) -> None:
    """Add experience, and levels while it reaches the square of the level; a level is 3 hp."""
    facts["exp"] = facts["exp"] + exp_N & 0xFFFF  # the cartridge adds two bytes
    # Level L is left at exp L^2, so that the level is the whole root and one more.
    root_N = np.floor(np.sqrt(facts["exp"])).astype(np.int64)
    level_N = np.where(exp_N > 0, np.clip(root_N + 1, facts["level"], _LARGEST_LEVEL), facts["level"])
    risen_N = level_N - facts["level"]
    for name, each in (("level", 1), ("max_hp", 3), ("hp", 3)):
        facts[name] += each * risen_N


def _turn(facts: dict[str, Integers], in_world_N: Booleans, actions_N: Integers) -> None:
    for action, facing in _FACINGS.items():
        _set(facts, in_world_N & (actions_N == action), facing=facing)


def _cell_ahead(facts: Facts) -> tuple[Integers, Integers, np.ndarray]:
    """The x, y and kind of the cell that the player faces; the maps' borders are walls and exits, so that one exists."""
    x_N = facts["x"] + sum(step * (facts["facing"] == facing) for facing, step in _STEP_X.items())
    y_N = facts["y"] + sum(step * (facts["facing"] == facing) for facing, step in _STEP_Y.items())
    return x_N, y_N, _CELLS[facts["map_number"] - FIRST_MAP, y_N, x_N]


def _touch(facts: dict[str, Integers], touches_N: Booleans, target_N: np.ndarray) -> None:
    """The A button in the world: take the starter, heal, talk to the person, or challenge a gym."""
    has_party_N = facts["party_count"] > 0
    takes_N = touches_N & (target_N == "L") & ~has_party_N
    starter = {"party_count": 1, "species": _STARTER, "level": 5, "exp": 16, "hp": 20, "max_hp": 20, "status": 0}
    _set(facts, takes_N, **starter, script=1)
    _set(facts, touches_N & (target_N == "H") & has_party_N, hp=facts["max_hp"], status=0)
    talks_N = touches_N & (target_N == "P")
    # The other events are the starter and the badges.
    is_given_N = talks_N & has_party_N & (facts["events"] == 1 + facts["johto_badges"])
    _set(facts, talks_N, script=1)
    _set(facts, is_given_N, potions=1)
    facts["events"] += takes_N | is_given_N
    for number, (gym, level) in enumerate(_GYM_LEVELS.items()):
        may_N = has_party_N & (facts["johto_badges"] == number)
        _meet(facts, touches_N & (target_N == gym) & may_N, 2, level)


def _walk(
    facts: dict[str, Integers],
    moves_N: Booleans,
    target_N: np.ndarray,
    target_x_N: Integers,
    target_y_N: Integers,
    draws_2_N: Integers,
) -> None:
    walks_N = moves_N & ((target_N == ".") | (target_N == ","))
    _set(facts, walks_N, x=target_x_N, y=target_y_N)
    level_N = draws_2_N[1] & 3
    for number, lowest in _WILD_LEVELS.items():
        _meet(
            facts,
            walks_N & (target_N == ",") & (draws_2_N[0] & 7 == 0) & (facts["map_number"] == number),
            1,
            lowest + level_N,
        )
    for exit_cell, (map_number, x, y) in _EXITS.items():
        leaves_N = moves_N & (target_N == exit_cell) & ((facts["party_count"] > 0) | (exit_cell != "E"))
        _set(facts, leaves_N, map_number=map_number, x=x, y=y)


def _meet(facts: dict[str, Integers], meets_N: Booleans, battle_mode: int, level: Integers | int) -> None:
    _set(facts, meets_N, battle_mode=battle_mode, enemy_level=level, enemy_hp=8 + 2 * level, enemy_max_hp=8 + 2 * level)


def _set(facts: dict[str, Integers], where_N: Booleans, **values: Integers | int) -> None:
    for name, value in values.items():
        facts[name] = np.where(where_N, value, facts[name])


def _party_of_one(facts: Facts) -> dict[str, Integers]:
    """The facts of the party, which has one member at most."""
    return {
        "party_levels": facts["level"],
        "party_alive": (facts["hp"] > 0).astype(np.int64),
        "party_hp": facts["hp"],
        "party_max_hp": facts["max_hp"],
    }
