"""What a process with emulated games does: answers until the pipe of its parent ends."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from benchmarks.games_in_processes import read_message, write_message
from components.hybrid.game_boy.games import EmulatedGames
from components.hybrid.game_boy.pyboy_emulator import PyBoyEmulator

_LOOK_EVERY_SECONDS = 0.25


def serve() -> NoReturn:
    """Answer requests of standard input on standard output; what libraries print goes to standard error."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        _, options = read_message(source)
        threading.Thread(target=_end_with, args=(options.pop("parent"),), daemon=True).start()
        games = _answer_to(sink, lambda: _open(**options), shows=False)
        while True:
            what, argument = read_message(source)
            _answer_to(sink, lambda: _do(games, what, argument))  # noqa: B023  (called before the next round)
    except (EOFError, BrokenPipeError):
        os._exit(0)  # without flushing into the broken pipe


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_SECONDS)
    os._exit(0)


def _answer_to(sink: Any, act: Callable[[], Any], *, shows: bool = True) -> Any:
    try:
        result = act()
    except Exception as error:  # the border between processes: our parent raises it
        write_message(sink, error)
        return None
    write_message(sink, result if shows else None)
    return result


def _open(*, cartridge: Any, num_games: int, **options: Any) -> EmulatedGames:
    return EmulatedGames(cartridge, [PyBoyEmulator(cartridge.rom) for _ in range(num_games)], **options)


def _do(games: EmulatedGames, what: str, argument: Any) -> Any:
    if what == "step":
        step = games.step(argument)
        return step, games.facts, games.states(), games.masks()
    if what == "look":
        return games.facts, games.states(), games.masks()
    return getattr(games, what)(*([] if argument is None else [argument]))
