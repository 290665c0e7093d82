"""N emulated games at once with the interface of the twin: facts, masks, rewards, exact snapshots."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from components.hybrid.episodes import NUM_STARTS, EpisodeRule, RecordedGames, Snapshot, start_seed
from components.hybrid.errors import SaveStateCorrupt
from components.hybrid.game_boy.cartridges import Cartridge
from components.hybrid.game_boy.emulator import Emulator
from components.hybrid.game_boy.memory_facts import FactsReader
from components.hybrid.game_facts import (
    LARGEST,
    Action,
    Booleans,
    Integers,
    grey_screens,
    state_variables,
)
from components.hybrid.rewards import Records


class EmulatedGames(RecordedGames):
    """One game for each emulator, all with the same cartridge.

    A game depends on `seed`, its number and its buttons alone; the first one has the number `first_game`, so that games keep
    their chance however they are divided among processes. With `sees_screens` what a policy sees is the screen instead of the
    state variables; frames are drawn then. The emulators are closed with the games.
    """

    def __init__(
        self,
        cartridge: Cartridge,
        emulators: Sequence[Emulator],
        *,
        seed: int,
        rule: EpisodeRule | None = None,
        first_game: int = 0,
        renders: bool = False,
        sees_screens: bool = False,
    ) -> None:
        self._cartridge, self._emulators = cartridge, tuple(emulators)
        self._renders, self._sees_screens = renders or sees_screens, sees_screens
        super().__init__(len(emulators), seed=seed, rule=rule)
        self._first_game, self._reader = first_game, FactsReader(cartridge.memory_map)
        self._start = self._boot() if cartridge.start_state is None else cartridge.start_state
        self._tiles: list[set[tuple[int, int, int, int]]] = [set() for _ in emulators]
        self.begin(np.ones(self.num_games, np.bool_))

    def states(self) -> NDArray[np.float32] | NDArray[np.uint8]:
        """The 25 state variables of each game now (N, S), or the greys of its screen (N, 72, 80); not to be changed."""
        return self._states_N_S

    def screens(self) -> NDArray[np.uint8]:
        """The last frame of each game (N, 144, 160, 3). Raises ConfigurationError for games that draw none."""
        if not self._renders:
            raise ConfigurationError("renders False: these games draw no screens; make them with renders=True")
        return np.stack([emulator.screen() for emulator in self._emulators])

    def begin(self, games_N: Booleans, *, seeds_N: Integers | None = None) -> None:
        """Start new episodes in these games, also by seeds of one's own."""
        for game in np.flatnonzero(games_N):
            number = self._first_game + int(game)
            drawn = start_seed(
                self._seed, "game_boy", number, int(self._episodes_N[game]), is_held_out=self._rule.is_held_out
            )
            self._start_game(self._emulators[game], drawn if seeds_N is None else int(seeds_N[game]))
            self._episodes_N[game] += 1
            self._tiles[game] = set()
        self._begin_records(games_N)

    def save_states(self) -> tuple[bytes, ...]:
        """A sealed save state of each game."""
        return tuple(emulator.save_state() for emulator in self._emulators)

    def digests(self) -> tuple[str, ...]:
        """A digest of each game's memory: equal whether or not frames were drawn, as save states are not."""
        return tuple(hashlib.sha256(emulator.memory()).hexdigest() for emulator in self._emulators)

    def snapshot(self) -> Snapshot:
        """All that decides how the games go on, as arrays by name, for `restore`: about 3 KiB a game.

        Beside each `state.N` stands `memory.N`, its digest of memory: a digest of a snapshot covers that in its place.
        """
        own = {name: getattr(self, name).copy() for name in _OWN}
        records = {f"records.{name}": getattr(self._records, name).copy() for name in Records.__slots__}
        tiles = {
            f"tiles.{game}": np.array(sorted(each), np.int64).reshape(-1, 4) for game, each in enumerate(self._tiles)
        }
        states = {f"state.{game}": np.frombuffer(each, np.uint8) for game, each in enumerate(self.save_states())}
        digests = {f"memory.{game}": _bytes(each) for game, each in enumerate(self.digests())}
        return {**own, **records, **tiles, **states, **digests}

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of as many games with as many subgoals.

        Raises ValueError for any other, SaveStateCorrupt where a save state has not the memory of its digest.
        """
        here = {name: getattr(self, name).shape for name in _OWN}
        if wrong := sorted(name for name in here if name not in snapshot or snapshot[name].shape != here[name]):
            raise ValueError(f"a snapshot of other games: {', '.join(wrong)} differ; make one with the same arguments")
        for name in _OWN:
            setattr(self, name, snapshot[name].copy())
        self._restore_records(snapshot)
        self._tiles = [
            {(a, b, c, d) for a, b, c, d in snapshot[f"tiles.{game}"].tolist()} for game in range(self.num_games)
        ]
        for game, emulator in enumerate(self._emulators):
            emulator.load_state(snapshot[f"state.{game}"].tobytes())
        for game, digest in enumerate(self.digests()):
            if not np.array_equal(snapshot.get(f"memory.{game}", _bytes(digest)), _bytes(digest)):
                raise SaveStateCorrupt(f"the save state of game {game} is of another moment: restore a whole snapshot")
        self._read()

    def close(self) -> None:
        """Close all emulators."""
        for emulator in self._emulators:
            emulator.close()

    def _boot(self) -> bytes:
        self._emulators[0].run(self._cartridge.boot_frames, render=True)
        return self._emulators[0].save_state()

    def _start_game(self, emulator: Emulator, seed: int) -> None:
        emulator.load_state(self._start)
        if self._cartridge.chance_is_written:
            chance = self._cartridge.memory_map["hRandomAdd"]
            emulator.write(chance.address, (1 + seed % NUM_STARTS["homebrew"]).to_bytes(chance.num_bytes, "big"))
        idle = seed % self._cartridge.seed_frames if self._cartridge.seed_frames else 0
        emulator.run(1 + idle, render=self._renders)

    def _press(self, actions_N: Integers) -> None:
        held = self._cartridge.hold_frames
        for emulator, action in zip(self._emulators, actions_N, strict=True):
            emulator.push(Action(int(action)))
            emulator.run(held, render=False)
            emulator.release(Action(int(action)))
            emulator.run(self._cartridge.frames_per_action - held, render=self._renders)

    def _read(self) -> None:
        games = [self._reader.read(emulator) for emulator in self._emulators]
        self._facts = {name: np.array([game[name] for game in games], np.int64) for name in LARGEST}
        self._states_N_S = grey_screens(self.screens()) if self._sees_screens else state_variables(self._facts)

    def _visit(self) -> tuple[Integers, Integers]:
        self._read()
        places = zip(*(self._facts[name].tolist() for name in ("map_group", "map_number", "x", "y")), strict=True)
        for tiles, place in zip(self._tiles, places, strict=True):
            tiles.add(place)
        maps = [len({tile[:2] for tile in tiles}) for tiles in self._tiles]
        return np.array([len(tiles) for tiles in self._tiles]), np.array(maps)


def _bytes(hexadecimal: str) -> NDArray[np.uint8]:
    return np.frombuffer(bytes.fromhex(hexadecimal), np.uint8)


_OWN = ("_met_N_G", "_steps_N", "_episodes_N")
