"""Interruptions of a process, and what Prefect shows of a task that one has ended."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect.client.schemas.objects import State
from prefect.context import TaskRunContext
from prefect.exceptions import TerminationSignal
from prefect.states import Cancelled

P = ParamSpec("P")
R = TypeVar("R")
INTERRUPTIONS = (KeyboardInterrupt, TerminationSignal)
"""Raised in the main thread by Ctrl-C and by signals that ask the process to end."""


def cancellable(compute: Callable[P, R]) -> Callable[P, R]:
    """`compute` as the function of a Prefect task that an interruption ends as cancelled. Prefect's own word is crashed."""

    @functools.wraps(compute)
    def computed(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return compute(*args, **kwargs)
        except INTERRUPTIONS as interruption:
            if TaskRunContext.get() is None:
                raise
            message = "The process was asked to end."
            return Cancelled(message=message, data=interruption)  # type: ignore[return-value]

    return computed


def raise_interruption(returned: State[Any]) -> None:
    """Raise the interruption that ended a task with this state, if one did."""
    interruption = getattr(returned.data, "result", None)
    if returned.is_cancelled() and isinstance(interruption, INTERRUPTIONS):
        raise interruption
