"""The rules for many games are those of one game at a time, read from the cartridge's source as it stands."""

from collections import Counter

import numpy as np

from components.hybrid.cartridge_rules import first_facts, play_button
from components.hybrid.game_facts import NUM_ACTIONS, Action
from tests.components.hybrid.scripted_play import TO_THE_PERSON, competent_actions

MAPS = {
    4: "###########L.......##........##..##....##..##....E#........##....H...##.......P###########",
    3: "###########....,,,,##....,,,,##....,,,,#W.......G##....,,,,##....,,,,##....,,,,###S#######",
    2: "##N########........##,,,,,,,,##,,,,,,,,##,,,,,,,,##,,,,,,,,##,,,,,,,,##........#########K#",
}


class Cartridge:
    """One game, function by function as in `homebrew.c`."""

    def __init__(self) -> None:
        self.x, self.y, self.map, self.facing, self.menu, self.money, self.badges, self.party = (
            4,
            5,
            4,
            0,
            0,
            3000,
            0,
            0,
        )
        self.script = self.potions = self.gift = 0
        self.level = self.exp = self.hp = self.max = self.mode = self.enemy_level = self.enemy_hp = self.enemy_max = 0

    def press(self, action: int, draws: list[int]) -> None:
        if action != Action.NONE:
            (self.battle if self.mode else self.world)(action, iter(draws))

    def battle(self, action, draws) -> None:
        if action == Action.A:
            damage = 4 + (self.level >> 1) + (next(draws) & 3)
            self.enemy_hp = self.enemy_hp - damage if self.enemy_hp > damage else 0
            if not self.enemy_hp:
                self.exp += self.enemy_level * 8
                while self.level < 100 and self.exp >= self.level * self.level:
                    self.level, self.max, self.hp = self.level + 1, self.max + 3, self.hp + 3
                self.money += self.enemy_level * (60 if self.mode == 2 else 10)
                if self.mode == 2:
                    self.badges |= 2 if self.map == 2 else 1
                    self.script = 1
                self.mode = 0
                return
        elif action == Action.B:
            if self.mode == 1 and next(draws) & 1:
                self.mode = 0
                return
        else:
            return
        damage = 1 + (self.enemy_level >> 1) + (next(draws) & 1)
        self.hp = self.hp - damage if self.hp > damage else 0
        if not self.hp:
            self.script = 1
            self.money, self.map, self.x, self.y, self.mode, self.hp = self.money >> 1, 4, 5, 5, 0, self.max

    def world(self, action, draws) -> None:
        if self.script:
            self.script = 0 if action in (Action.A, Action.B) else 1
            return
        if action == Action.START:
            self.menu = 1 - self.menu
            return
        if self.menu:
            if action == Action.B:
                self.menu = 0
            if action == Action.A and self.potions and self.hp != self.max:
                self.hp, self.potions = min(self.hp + 20, self.max), 0
            return
        turns = {Action.RIGHT: (1, 0, 12), Action.LEFT: (-1, 0, 8), Action.UP: (0, -1, 4), Action.DOWN: (0, 1, 0)}
        if action in turns:
            self.facing = turns[action][2]
        elif action != Action.A:
            return
        dx, dy = next((dx, dy) for dx, dy, facing in turns.values() if facing == self.facing)
        cell = MAPS[self.map][(self.y + dy) * 10 + self.x + dx]
        if action == Action.A:
            if cell == "L" and not self.party:
                self.party, self.level, self.exp, self.max, self.hp, self.script = 1, 5, 16, 20, 20, 1
            if cell == "H" and self.party:
                self.hp = self.max
            if cell == "P":
                self.script = 1
                if self.party and not self.gift:
                    self.gift = self.potions = 1
            if cell == "G" and self.party and not self.badges & 1:
                self.meet(2, 9)
            if cell == "K" and self.badges == 1:
                self.meet(2, 20)
        elif cell == "E" and self.party:
            self.map, self.x, self.y = 3, 1, 4
        elif cell == "W":
            self.map, self.x, self.y = 4, 8, 4
        elif cell == "S":
            self.map, self.x, self.y = 2, 2, 1
        elif cell == "N":
            self.map, self.x, self.y = 3, 2, 7
        elif cell in ".,":
            self.x, self.y = self.x + dx, self.y + dy
            if cell == "," and not next(draws) & 7:
                self.meet(1, (5 if self.map == 2 else 2) + (next(draws) & 3))

    def meet(self, mode: int, level: int) -> None:
        self.mode, self.enemy_level, self.enemy_hp, self.enemy_max = mode, level, 8 + 2 * level, 8 + 2 * level

    def facts(self) -> dict[str, int]:
        return {
            "x": self.x, "y": self.y, "map_number": self.map, "facing": self.facing, "menu": self.menu, "money": self.money,
            "johto_badges": self.badges.bit_count(), "party_count": self.party, "level": self.level, "exp": self.exp,
            "hp": self.hp, "max_hp": self.max,
            "battle_mode": self.mode, "enemy_level": self.enemy_level, "enemy_hp": self.enemy_hp,
            "enemy_max_hp": self.enemy_max, "party_hp": self.hp, "party_levels": self.level, "script": self.script,
            "potions": self.potions, "events": self.party + self.gift + self.badges.bit_count(),
        }  # fmt: skip


def second_gym_rate(level: int) -> float:
    """The share of 2,000 fights of the second gym that a member of this level wins, which comes in full health."""
    start = {"party_count": 1, "level": level, "exp": (level - 1) ** 2, "hp": 5 + 3 * level, "max_hp": 5 + 3 * level}
    gym = {"johto_badges": 1, "battle_mode": 2, "enemy_level": 20, "enemy_hp": 48, "enemy_max_hp": 48}
    facts = first_facts(2000)
    facts |= {name: np.full(2000, value) for name, value in (start | gym).items()}
    rng = np.random.default_rng(level)
    for _ in range(8):
        facts = play_button(facts, np.full(2000, Action.A), rng.integers(0, 256, (2, 2000)))
    assert not facts["battle_mode"].any()
    return float((facts["johto_badges"] == 2).mean())


def test_the_second_gym_is_lost_without_training_and_won_with_it() -> None:
    """At level 10, that of the first badge, four hits make 48 only if all are 12; else the fourth blow is the end."""
    assert second_gym_rate(10) < 0.01
    assert 0.2 < second_gym_rate(12) < 0.3, "sums of four draws from 0 to 3 that are at least 8: 66 of 256"
    assert second_gym_rate(15) > 0.9


def test_forty_games_are_forty_times_one_game() -> None:
    rng, games = np.random.default_rng(0), [Cartridge() for _ in range(40)]
    facts = first_facts(40)
    met = Counter[tuple[int, int, int]]()
    for step in range(900):
        anything = rng.integers(0, NUM_ACTIONS, 40)
        actions = np.where(rng.random(40) < 0.75, competent_actions(facts), anything)
        if step < len(TO_THE_PERSON):
            actions[:20] = TO_THE_PERSON[step]
        draws = rng.integers(0, 256, (2, 40))
        before = {name: values.copy() for name, values in facts.items()}
        after = play_button(facts, actions, draws)
        assert all((facts[name] == before[name]).all() for name in facts), "the facts of before stay as they were"
        facts = after
        for number, game in enumerate(games):
            game.press(int(actions[number]), draws[:, number].tolist())
            assert {name: int(facts[name][number]) for name in game.facts()} == game.facts()
            met[game.mode, game.badges, game.map] += 1
            met[-1, game.potions, game.script] += 1
    assert {(0, 0, 4), (0, 0, 3), (2, 0, 3), (0, 1, 3)} <= met.keys(), "the first gym was played"
    assert {(1, 1, 2), (2, 1, 2), (0, 3, 2)} <= met.keys(), "the second gym was played"
    assert {number for mode, _, number in met if mode == 1} == {2, 3}, "wild ones were met on the route and on the hill"
    assert {(-1, 1, 1), (-1, 1, 0), (-1, 0, 1)} <= met.keys()
