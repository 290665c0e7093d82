"""When, where and among which objects the garbage collector searches."""

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG_OBJECTS = 10_000
"""A collection starts when this many more objects have been created than freed; Python's own number is 700."""

_SEARCHES_OF_YOUNG_OBJECTS = 12
"""So many before all objects are searched, which takes a tenth of a second in a Prefect server."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """For imports: pause the cyclic garbage collector inside, and freeze all existing objects at the end.

    Imports create hundreds of thousands of objects. Collecting garbage meanwhile takes a sixth of the start time, and each
    later full collection a large part of a second.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def gc_relaxed() -> Iterator[None]:
    """For long work: objects from before the block are not searched for garbage inside it, and new ones seldom.

    Otherwise a training flow searches the same objects again and again, for a thirtieth of a second in each iteration.
    """
    before = gc.get_threshold()
    is_first = before[0] != _YOUNG_OBJECTS  # two runs in threads may end in any order
    gc.collect()
    gc.freeze()
    if is_first:
        gc.set_threshold(_YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        if is_first:
            gc.set_threshold(*before)
        gc.unfreeze()


def collect_garbage_in_a_thread(*, every_seconds: float = 5.0) -> None:
    """From now on, search this process for garbage in a thread of its own, and in no other.

    For a process with one thread that must never wait: what the collector frees may wait for a lock. A cursor of SQLite does,
    until its connection no longer waits for the database.
    """
    gc.disable()
    threading.Thread(target=_collect_forever, args=(every_seconds,), name="garbage collector", daemon=True).start()


def _collect_forever(every_seconds: float) -> None:
    while True:
        for _ in range(_SEARCHES_OF_YOUNG_OBJECTS):
            time.sleep(every_seconds)
            gc.collect(1)
        gc.collect()
