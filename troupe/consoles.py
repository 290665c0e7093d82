"""Rich consoles of the commands, and what they say while one waits."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console

UNWRAPPED_COLUMNS = 10_000
LONGEST_SILENCE_SECONDS = 4.0
"""Where no terminal shows that something moves, a line comes about this often."""

_QUICK_SECONDS = 0.9
"""What takes less says nothing of itself, however long the silence before it was."""


def console(**settings: Any) -> Console:
    """A console with these `settings` of rich's, which wraps nothing unless it is a terminal: lines of a log are found by what
    is in them."""
    made = Console(**settings)
    if not made.is_terminal and not made.is_jupyter:
        made.width = UNWRAPPED_COLUMNS
    return made


class Heartbeat:
    """Calls `speak` from a thread of its own whenever nothing was said for `every_seconds`, inside `beating`."""

    _said_at = monotonic()
    """When any heartbeat of this process spoke or heard of a line last: silences do not end where one wait follows another."""

    def __init__(self, speak: Callable[[], None], every_seconds: float = LONGEST_SILENCE_SECONDS) -> None:
        self._speak = speak
        self._every_seconds = every_seconds

    @staticmethod
    def reset() -> None:
        """Something was said now."""
        Heartbeat._said_at = monotonic()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Break silences inside the block."""
        is_over = threading.Event()
        thread = threading.Thread(target=self._beat, args=(is_over,), name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _beat(self, is_over: threading.Event) -> None:
        least_seconds = min(_QUICK_SECONDS, self._every_seconds)
        while not is_over.wait(max(self._said_at + self._every_seconds - monotonic(), least_seconds)):
            if monotonic() - self._said_at >= self._every_seconds:
                self._speak()
                self.reset()


@contextmanager
def show_wait(text: str, on: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show `text` while the block runs: a spinner on a terminal, a line every few seconds elsewhere. Yields what shows
    another text.

    `on` is the console of a terminal or a notebook, or a quiet one; otherwise lines go to standard error.
    """
    shown = on if on is not None and (on.is_terminal or on.is_jupyter or on.quiet) else console(stderr=True)
    if shown.is_terminal:
        with shown.status(text) as status:
            yield status.update
        return
    began_at = monotonic()

    def speak() -> None:
        if not shown.quiet:
            shown.print(f"{text}: {monotonic() - began_at:.0f} s", highlight=False, markup=False, soft_wrap=True)

    def change(other: str) -> None:
        nonlocal text, began_at
        text, began_at = other, monotonic()

    with Heartbeat(speak).beating():
        yield change
