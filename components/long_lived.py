"""What lives as long as the process, and so is no business of the garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def long_lived() -> Iterator[None]:
    """The cyclic garbage collector rests inside, and never looks at what was there at the end: meant for imports.

    Modules, classes and functions are hundreds of thousands of objects. Looking for garbage among them, again and again while
    they are imported, takes a sixth of the start, and every later look at all of them a good part of a second.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
