"""Process-wide state of torch and transformers, shared by threads so that their results do not depend on each other.

Building a model changes the random state, the default type and the initializers; float sums depend on the thread count.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

_building = threading.RLock()


@contextmanager
def building_a_model(seed: int | None = None) -> Iterator[None]:
    """No other thread builds a model meanwhile. With `seed`, torch is seeded with it, and its state is restored at the end."""
    with _building:
        if seed is None:
            yield
            return
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield


class _ThreadCount:
    """The thread count in use, and the number of its users."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = self._num_users = 0

    @contextmanager
    def held(self, num_threads: int) -> Iterator[None]:
        """Waits until no one computes with another count."""
        with self._changed:
            self._changed.wait_for(lambda: self._num_users == 0 or self._count == num_threads)
            self._count, self._num_users = num_threads, self._num_users + 1
        try:
            yield
        finally:
            with self._changed:
                self._num_users -= 1
                self._changed.notify_all()


_thread_count = _ThreadCount()
_this_thread = threading.local()


@contextmanager
def computing_with(num_threads: int) -> Iterator[None]:
    """Torch computes with `num_threads` threads. Waits for other threads that compute with another number."""
    import torch

    is_nested = getattr(_this_thread, "is_computing", False)
    with nullcontext() if is_nested else _thread_count.held(num_threads):
        _this_thread.is_computing = True
        before = torch.get_num_threads()
        try:
            if before != num_threads:
                torch.set_num_threads(num_threads)
            yield
        finally:
            if before != num_threads:
                torch.set_num_threads(before)
            _this_thread.is_computing = is_nested
