"""Progress bars of libraries: for people at a terminal, never in a log."""

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
    from tqdm.std import tqdm

    with _changing:
        before = tqdm.__init__
        tqdm.__init__ = partialmethod(before, disable=None)  # None: hidden unless it goes to a terminal
        try:
            yield
        finally:
            tqdm.__init__ = before
