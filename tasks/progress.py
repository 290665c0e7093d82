"""How far the work is, told to whoever listens: the terminal of `troupe train`, or nobody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send all progress of this process to `listener` inside the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(stage: str, step: int, done: int, total: int, **facts: Any) -> None:
    """Report progress; costs nothing when nobody listens."""
    if _listeners:
        progress = Progress(stage=stage, step=step, done=done, total=total, facts=facts)
        for listener in list(_listeners):
            listener(progress)


def teller(stage: str, step: int) -> Callable[[int, int], None]:
    """A callback `(done, total)` for a component that knows no stages."""
    return lambda done, total: tell(stage, step, done, total)
