"""Ctrl-C, SIGTERM and SIGHUP: an orderly end of the command within seconds."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from components.machine.outages import interrupt
from components.text.escaping import printable, without_passwords

ENDING_SECONDS = 20.0
"""The time limit for the orderly end of an interrupted command."""
LINE = "interrupted"
LINE_OF_KEPT_WORK = "interrupted; nothing that was finished is lost, the same command continues from here"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked this process to end."""


class Interruption:
    """The signal that interrupted this process, if any."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.signal_number: int | None = None

    @property
    def exit_code(self) -> int:
        """128 + the signal's number. **Example** 130 after Ctrl-C."""
        return 128 + (self.signal_number or signal.SIGINT)

    def receive(self, signal_number: int, frame: FrameType | None) -> None:
        """End the command in order; at once on a second Ctrl-C. Other later signals are ignored."""
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
        """End this process immediately; the processes it started notice that and end, too."""
        say(self.line)
        os._exit(self.exit_code)


@contextmanager
def interruptible(line: str) -> Iterator[Interruption]:
    """Handle the signals inside the block, and say `line` if it must end at once. One that nohup ignores stays ignored."""
    interruption = Interruption(line)
    is_main = threading.current_thread() is threading.main_thread()  # only there can signals be handled
    heard = [number for number in _SIGNALS if is_main and signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interruption.receive) for number in heard}
    try:
        yield interruption
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def say(line: str) -> None:
    """Print on standard error, unless it is closed."""
    with suppress(OSError, ValueError):
        print(printable(without_passwords(line), keep="\n"), file=sys.stderr, flush=True)
