"""What torch and transformers keep for the whole process, shared by its threads in an orderly way.

Building a model changes the random numbers, the default type and the initialisers; float sums depend on the number of threads.
Without turns, runs in two threads would change each other's weights.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_building = threading.RLock()


@contextmanager
def building_a_model(seed: int | None = None) -> Iterator[None]:
    """Inside, no other thread builds a model, and with `seed` torch draws from it; afterwards as if nothing had been drawn."""
    with _building:
        if seed is None:
            yield
            return
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield


class _ThreadCount:
    """How many threads torch computes with, and how many are at work under that count."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._num_users = 0

    def take(self, num_threads: int) -> None:
        """Return once nobody computes with another count."""
        with self._changed:
            self._changed.wait_for(lambda: self._num_users == 0 or self._count == num_threads)
            self._count, self._num_users = num_threads, self._num_users + 1

    def give_back(self) -> None:
        """Let those go on who wait for another count."""
        with self._changed:
            self._num_users -= 1
            self._changed.notify_all()


_thread_count = _ThreadCount()
_this_thread = threading.local()


@contextmanager
def computing_with(num_threads: int) -> Iterator[None]:
    """Inside, torch computes with so many threads. Work with another number in another thread waits for its end."""
    import torch

    is_nested = getattr(_this_thread, "is_computing", False)
    if not is_nested:
        _thread_count.take(num_threads)
        _this_thread.is_computing = True
    before = torch.get_num_threads()
    try:
        if before != num_threads:
            torch.set_num_threads(num_threads)
        yield
    finally:
        if before != num_threads:
            torch.set_num_threads(before)
        if not is_nested:
            _this_thread.is_computing = False
            _thread_count.give_back()
