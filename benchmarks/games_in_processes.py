"""Emulated games in processes of their own, over our own pipes.

A child reads until its pipe ends, and the pipe ends with this process however it dies; not with the thread that made the
child, as a parent-death signal does. A copy of the pipe in a fork of ours would keep it open: so the child also watches whose
child it is.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError, TransientError
from components.hybrid.episodes import EpisodeRule, Snapshot
from components.hybrid.experience import GamesOpener, HybridSettings
from components.hybrid.game_boy.cartridges import Cartridge
from components.hybrid.game_facts import Booleans, GamesStep, Integers
from components.hybrid.recording_games import SnapshotGames
from components.machine.package_files import SOURCE_ROOT

_LENGTH_BYTES = 8
_CHILD = "import sys; sys.path.insert(0, sys.argv[1]); from benchmarks.games_child import serve; serve()"
_PATIENCE_SECONDS = 5.0


class GamesProcessDied(TransientError):
    """A process with emulators ended before it answered."""


def write_message(pipe: IO[bytes], message: object) -> None:
    """Put a value into a pipe, with its length before it."""
    raw = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(len(raw).to_bytes(_LENGTH_BYTES, "little") + raw)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> Any:
    """The next value of a pipe. Raises EOFError where it ends."""
    length = pipe.read(_LENGTH_BYTES)
    raw = pipe.read(int.from_bytes(length, "little")) if len(length) == _LENGTH_BYTES else b""
    if not raw:
        raise EOFError("the pipe has ended")
    return pickle.loads(raw)


class GamesInProcesses:
    """`num_games` games as `EmulatedGames`, divided among processes. A context manager: they end with it.

    One thread at a time uses it; which one does not matter. Raises ConfigurationError where the games cannot be divided, and
    what the children raise.

    **Example** 16 games in 2 processes play as 16 games in one: `seed` and the number of a game decide, not its process.
    """

    def __init__(
        self,
        cartridge: Cartridge,
        num_games: int,
        *,
        num_processes: int,
        seed: int,
        environment: Mapping[str, str],
        rule: EpisodeRule | None = None,
        renders: bool = False,
        sees_screens: bool = False,
    ) -> None:
        if num_processes < 1 or num_games % num_processes:
            raise ConfigurationError(
                f"{num_games} games in {num_processes} processes: give a multiple of the processes"
            )
        self.num_games, self._share, self._renders = num_games, num_games // num_processes, renders
        command = [sys.executable, "-P", "-c", _CHILD, str(SOURCE_ROOT)]
        self._children = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment))
            for _ in range(num_processes)
        ]
        self._one_at_a_time, self._is_closed = threading.Lock(), False
        options = {"cartridge": cartridge, "num_games": self._share, "seed": seed, "rule": rule, "renders": renders}
        options["sees_screens"] = sees_screens
        firsts = range(0, num_games, self._share)
        try:
            self._ask("open", [options | {"first_game": first, "parent": os.getpid()} for first in firsts])
            self._look()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes with the games."""
        return tuple(child.pid for child in self._children)

    @property
    def facts(self) -> Mapping[str, Integers]:
        """The facts of each game now (N,)."""
        return self._facts

    def states(self) -> NDArray[np.float32] | NDArray[np.uint8]:
        """The 25 state variables of each game now (N, S), or the greys of its screen (N, 72, 80)."""
        return self._states_N_S

    def masks(self) -> Booleans:
        """The actions that are allowed in each game now (N, A)."""
        return self._masks_N_A

    def screens(self) -> NDArray[np.uint8]:
        """The last frame of each game (N, 144, 160, 3). Raises ConfigurationError for games that draw none."""
        return np.concatenate(self._ask("screens"))

    def step(self, actions_N: Integers) -> GamesStep:
        """What these buttons bring; games that end begin anew. Raises ValueError unless there is one action for each game."""
        actions_N = np.asarray(actions_N)
        if actions_N.shape != (self.num_games,):
            raise ValueError(f"actions of shape {actions_N.shape}: give one for each of {self.num_games} games")
        answers = self._ask("step", np.split(actions_N, len(self._children)))
        steps = [step for step, *_ in answers]
        self._take([now for _, *now in answers])
        names = [field.name for field in fields(GamesStep) if field.name not in ("terms", "final_facts")]
        return GamesStep(
            terms=_join([each.terms for each in steps]),
            final_facts=_join([each.final_facts for each in steps]),
            **{name: np.concatenate([getattr(each, name) for each in steps]) for name in names},
        )

    def digests(self) -> tuple[str, ...]:
        """A digest of each game's memory."""
        return tuple(digest for answer in self._ask("digests") for digest in answer)

    def snapshot(self) -> Snapshot:
        """All that decides how the games go on, for `restore`: the names begin with the number of a process."""
        answers = enumerate(self._ask("snapshot"))
        return {f"{number}.{name}": values for number, answer in answers for name, values in answer.items()}

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from the snapshot of as many processes with as many games. Raises ValueError for any other."""
        parts: dict[str, Snapshot] = {}
        for name, values in snapshot.items():
            number, _, rest = name.partition(".")
            parts.setdefault(number, {})[rest] = values
        numbers = [str(number) for number in range(len(self._children))]
        if parts.keys() != set(numbers):
            raise ValueError(f"a snapshot of {len(parts)} processes: give one of {len(numbers)}")
        self._ask("restore", [parts[number] for number in numbers])
        self._look()

    def close(self) -> None:
        """End the processes; once more does nothing."""
        self._is_closed = True
        for child in self._children:
            for pipe in (child.stdin, child.stdout):
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        for child in self._children:
            try:
                child.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _look(self) -> None:
        self._take(self._ask("look"))

    def _take(self, answers: Sequence[Sequence[Any]]) -> None:
        facts, states, masks = zip(*answers, strict=True)
        self._facts = _join(facts)
        self._states_N_S, self._masks_N_A = np.concatenate(states), np.concatenate(masks)

    def _ask(self, what: str, arguments: Sequence[object] | None = None) -> list[Any]:
        """The answers of all children, which work at the same time. Where one is missing, all end: what the others say would
        be taken for the answer to another question."""
        if self._is_closed:
            raise ValueError("the games are closed: make new ones, and restore a snapshot")
        try:
            answers = self._answers(what, arguments)
        except BaseException:
            self.close()
            raise
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _answers(self, what: str, arguments: Sequence[object] | None) -> list[Any]:
        with self._one_at_a_time:
            for child, argument in zip(self._children, arguments or [None] * len(self._children), strict=True):
                assert child.stdin is not None
                with contextlib.suppress(BrokenPipeError):  # reading tells how it ended
                    write_message(child.stdin, (what, argument))
            return [self._answer(child) for child in self._children]

    def _answer(self, child: subprocess.Popen[bytes]) -> Any:
        try:
            assert child.stdout is not None
            return read_message(child.stdout)
        except EOFError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_PATIENCE_SECONDS)
            message = f"process {child.pid} of the games ended with status {child.returncode} before it answered"
            raise GamesProcessDied(f"{message}: restore a snapshot in new processes") from error


def _join(tables: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([each[name] for each in tables]) for name in tables[0]}


def emulator_opener(cartridge: Cartridge, *, num_processes: int, environment: Mapping[str, str]) -> GamesOpener:
    """Opens games on emulators in that many processes, which end with the block.

    Raises ConfigurationError for settings with `starts`: only the twin can begin at a position of play.

    **Example** 16 games in 2 processes play as 16 games of one process, and as the twin plays where the rules are equal.
    """

    def open_games(settings: HybridSettings, seed: int) -> AbstractContextManager[SnapshotGames]:
        if settings.starts is not None:
            raise ConfigurationError("starts: the emulator begins at the start; leave it out, or train on the twin")
        return GamesInProcesses(
            cartridge,
            settings.num_games,
            num_processes=num_processes,
            seed=seed,
            environment=environment,
            rule=settings,
            sees_screens=settings.learner.sees_screens,
        )

    return open_games
