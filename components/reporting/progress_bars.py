"""Progress bars of libraries: for people at a terminal, never in a log, nor where they are only in the way."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod

_changing = threading.RLock()


@contextmanager
def bars_in_terminals_only() -> Iterator[None]:
    """Inside, tqdm draws no bar where standard error is no terminal, unless the library that asks for one says so itself.

    Meanwhile that holds for all threads; one at a time is inside.
    """
    with _unless_said(disable=None):  # None: hidden unless it goes to a terminal
        yield


@contextmanager
def no_bars() -> Iterator[None]:
    """Inside, tqdm draws no bar at all, under the same conditions: for work of seconds beside a display of our own."""
    with _unless_said(disable=True):
        yield


@contextmanager
def _unless_said(*, disable: bool | None) -> Iterator[None]:
    from tqdm.std import tqdm

    with _changing:
        before = tqdm.__init__
        tqdm.__init__ = partialmethod(before, disable=disable)
        try:
            yield
        finally:
            tqdm.__init__ = before
