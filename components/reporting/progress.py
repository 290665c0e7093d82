"""Progress events for listeners such as the terminal of `troupe train`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`done` of `total` units of a stage; `facts` are shown beside the bar."""

    stage: str
    step: int
    done: float
    total: int
    facts: dict[str, Any] = field(default_factory=dict)


NEWS: Mapping[str, bool] = {"is_news": True}
"""The `extra` of a log record that tells somebody who waits what is done, and warns of nothing."""
Listener = Callable[[Progress], None]
_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def subscribe(listener: Listener) -> Iterator[None]:
    """Within the block, send progress of this thread, and of the flows and tasks it starts, to `listener`."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def report(stage: str, step: int, done: float, total: int, **facts: Any) -> None:
    """Report progress. Free without a listener."""
    if listeners := _listeners.get():
        progress = Progress(stage=stage, step=step, done=done, total=total, facts=facts)
        for listener in listeners:
            listener(progress)


def reporter(stage: str, step: int) -> Callable[[float, int], None]:
    """A callback `(done, total)` for components, which do not know about stages."""
    return lambda done, total: report(stage, step, done, total)
