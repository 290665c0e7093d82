"""Objects that live as long as the process, hidden from the garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def long_lived() -> Iterator[None]:
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
