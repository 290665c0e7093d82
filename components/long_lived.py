"""Objects that live as long as the process, which the garbage collector need not visit."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def long_lived() -> Iterator[None]:
    """Pause the cyclic garbage collector inside, and freeze what exists at the end: for imports.

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
