"""How far the work is, told to whoever listens: the terminal of `troupe train`, or nobody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`done` of `total` units of a stage; `facts` are what is worth showing beside the bar."""

    stage: str
    step: int
    done: int
    total: int
    facts: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Progress], None]
_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send what is told inside the block to `listener`: by this thread, and by the flows and tasks that it starts."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def tell(stage: str, step: int, done: int, total: int, **facts: Any) -> None:
    """Report progress; costs nothing when nobody listens."""
    if listeners := _listeners.get():
        progress = Progress(stage=stage, step=step, done=done, total=total, facts=facts)
        for listener in listeners:
            listener(progress)


def teller(stage: str, step: int) -> Callable[[int, int], None]:
    """A callback `(done, total)` for a component that knows no stages."""
    return lambda done, total: tell(stage, step, done, total)
