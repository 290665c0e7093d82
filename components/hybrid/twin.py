"""The homebrew cartridge as an environment: N games at once, each with a seed of its own, exact snapshots, no emulator.

A game depends on its seed and its buttons alone, never on its neighbours: chance is a counter for each game, mixed by
SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.hybrid.cartridge_rules import FIRST_MAP, HEIGHT, NUM_MAPS, WIDTH, first_facts, play_button
from components.hybrid.episodes import EpisodeRule, RecordedGames, Snapshot, start_seed
from components.hybrid.game_facts import Booleans, Integers, state_variables
from components.hybrid.rewards import Records

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Twin(RecordedGames):
    """That many games by the rules of our cartridge."""

    def __init__(self, num_games: int, *, seed: int, rule: EpisodeRule | None = None) -> None:
        super().__init__(num_games, seed=seed, rule=rule)
        self._facts = first_facts(num_games)
        self._tiles_N_M_Y_X = np.zeros((num_games, NUM_MAPS, HEIGHT, WIDTH), np.bool_)
        self._chance_N = np.zeros(num_games, np.uint64)
        self.begin(np.ones(num_games, np.bool_))

    def states(self) -> NDArray[np.float32]:
        """The 25 state variables of each game now (N, S)."""
        return state_variables(self._facts)

    def begin(self, games_N: Booleans) -> None:
        """Start new episodes in these games, each with chance of its own number."""
        start = first_facts(self.num_games)
        self._facts = {name: np.where(games_N, start[name], self._facts[name]) for name in start}
        self._tiles_N_M_Y_X[games_N] = False
        for game in np.flatnonzero(games_N):
            number, episode = int(game), int(self._episodes_N[game])
            self._chance_N[game] = start_seed(self._seed, "twin", number, episode, is_held_out=self._rule.is_held_out)
            self._episodes_N[game] += 1
        self._begin_records(games_N)

    def snapshot(self) -> Snapshot:
        """All that decides how the games go on, as arrays by name, for `restore`: about 500 bytes a game."""
        return {name: values.copy() for name, values in self._arrays()}

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of as many games with as many subgoals. Raises ValueError for any other."""
        here = {name: values.shape for name, values in self._arrays()}
        there = {name: values.shape for name, values in snapshot.items()}
        if here != there:
            wrong = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
            raise ValueError(f"a snapshot of another twin: {', '.join(wrong)} differ; make one with the same arguments")
        for name in _OWN:
            setattr(self, name, snapshot[name].copy())
        self._restore_records(snapshot)
        self._facts = {name: snapshot[f"facts.{name}"].copy() for name in self._facts}

    def position(self, game: int) -> Snapshot:
        """Where a game is and what its episode has reached, for `begin_at`: its facts, records, tiles and subgoals."""
        return {name: values[game : game + 1].copy() for name, values in self._arrays() if name not in _NOT_OF_POSITION}

    def begin_at(self, game: int, position: Snapshot) -> None:
        """Start an episode of a game at a position of another one, before its first step: the clock and chance are its own.

        What the position has reached is not paid again.

        **Example** from a position behind the first badge the badge earns nothing, and all `max_steps` are left for the second.
        """
        assert self._steps_N[game] == 0, f"game {game} has played {self._steps_N[game]} steps"
        own = dict(self._arrays())
        changed = {name: own[name].copy() for name in position}
        for name, values in position.items():
            changed[name][game] = values[0]
        self.restore(own | changed)

    def _arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        for name in _OWN:
            yield name, getattr(self, name)
        for name in Records.__slots__:
            yield f"records.{name}", getattr(self._records, name)
        for name, values in self._facts.items():
            yield f"facts.{name}", values

    def _press(self, actions_N: Integers) -> None:
        self._facts = play_button(self._facts, actions_N, self._draws())

    def _visit(self) -> tuple[Integers, Integers]:
        games_N, facts = np.arange(self.num_games), self._facts
        self._tiles_N_M_Y_X[games_N, facts["map_number"] - FIRST_MAP, facts["y"], facts["x"]] = True
        return self._tiles_N_M_Y_X.sum(axis=(1, 2, 3)), self._tiles_N_M_Y_X.any(axis=(2, 3)).sum(axis=1)

    def _draws(self) -> Integers:
        """Two draws from 0 to 255 for each game (2, N)."""
        self._chance_N = self._chance_N + _GOLDEN
        mixed_N = self._chance_N
        mixed_N = (mixed_N ^ (mixed_N >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed_N = (mixed_N ^ (mixed_N >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed_N = mixed_N ^ (mixed_N >> np.uint64(31))
        return np.stack([mixed_N >> np.uint64(8) & np.uint64(255), mixed_N & np.uint64(255)]).astype(np.int64)


_NOT_OF_POSITION = ("_steps_N", "_episodes_N", "_chance_N")
_OWN = ("_tiles_N_M_Y_X", "_met_N_G", *_NOT_OF_POSITION)
