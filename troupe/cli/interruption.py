"""Ctrl-C, SIGTERM and SIGHUP: the command ends in order, within seconds, and says that nothing finished is lost."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from components.patience import interrupt
from components.plain_text import printable, without_passwords

ENDING_SECONDS = 20.0
"""How long a command that is interrupted may take to end in order."""
LINE = "interrupted; nothing that was finished is lost, the same command goes on from here"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Somebody asked this process to end."""


class Interruption:
    """What the signals of this process have come to."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    @property
    def exit_code(self) -> int:
        """As shells spell it. **Example** 130 after Ctrl-C."""
        return 128 + (self.signal_number or signal.SIGINT)

    def receive(self, signal_number: int, frame: FrameType | None) -> None:
        """The first signal ends the command in order, a second Ctrl-C at once. What else comes meanwhile changes nothing."""
        if self.signal_number is not None:
            if signal_number == signal.SIGINT:
                self.end_at_once()
            return
        self.signal_number = signal_number
        interrupt()
        last_resort = threading.Timer(ENDING_SECONDS, self.end_at_once)
        last_resort.daemon = True
        last_resort.start()
        raise Interrupted(f"ended by {signal.Signals(signal_number).name}")

    def end_at_once(self) -> None:
        """End this process here; the processes that it started notice that and end, too."""
        say(LINE)
        os._exit(self.exit_code)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Inside, this process hears the signals. One that it was told to ignore, as nohup does, stays ignored."""
    interruption = Interruption()
    with _handling(interruption.receive):
        yield interruption


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return
    heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def say(line: str) -> None:
    """Print on standard error, if anybody is left to read it."""
    with suppress(OSError, ValueError):
        print(printable(without_passwords(line), keep="\n"), file=sys.stderr, flush=True)
