"""The share of a long piece of work that is done, for whoever listens in this thread. Never part of a result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

ShareListener = Callable[[float], None]
_listener: ContextVar[ShareListener | None] = ContextVar("share_listener", default=None)
_EVERY_SECONDS = 0.2


@contextmanager
def share_listener(listener: ShareListener) -> Iterator[None]:
    """Inside, `listener` hears the share of the work from 0 to 1, at most five times a second and never a smaller one."""
    heard, at = 0.0, monotonic() - _EVERY_SECONDS

    def hear(share: float) -> None:
        nonlocal heard, at
        now = monotonic()
        if share > heard and now - at >= _EVERY_SECONDS:
            heard, at = share, now
            listener(share)

    token = _listener.set(hear)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def subtask(first: float, last: float) -> Iterator[None]:
    """Inside, what is told as 0 to 1 is told on as `first` to `last`, up to 1. **Example** in part (.5, 1), .5 is .75."""
    outer = _listener.get()
    if outer is None:
        yield
        return
    token = _listener.set(lambda share: outer(min(first + (last - first) * share, 1.0)))
    try:
        yield
    finally:
        _listener.reset(token)


def report_share(share: float) -> None:
    """Tell the listener of this thread how much is done. Free without one."""
    if (listener := _listener.get()) is not None:
        listener(share)
