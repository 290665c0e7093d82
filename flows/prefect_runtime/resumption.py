"""Flow runs that come back by themselves after a crash: how often, under which state, and which must not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the commands that need only the names below do not wait for Prefect
    from prefect.client.schemas.objects import State

MAX_RESUMPTIONS = 3
"""How often a flow run is started again after a crash, a Retry by hand counted too."""
RESUMING = "Resuming"
"""The name of the scheduled state in which a crashed flow run waits for a worker."""


def find_cancelled_state() -> State[Any] | None:
    """The state in which to end a flow run that the user cancelled and that was resumed all the same; None for all others.

    A process that is killed before it can say that it was cancelled is reported as crashed, and the crash is answered before
    the cancellation is.
    """
    from prefect.context import FlowRunContext, SyncClientContext
    from prefect.states import Cancelled

    context, client = FlowRunContext.get(), SyncClientContext.get()
    assert context is not None, "there is no flow run in this context"
    assert client is not None, "there is no flow run in this context"
    flow_run = context.flow_run
    if flow_run is None or flow_run.run_count < 2:
        return None
    states = sorted(client.client.read_flow_run_states(flow_run.id), key=lambda state: state.timestamp)
    return Cancelled(message="It was cancelled before it was resumed.") if is_cancelled_resumption(states) else None


def is_cancelled_resumption(states: list[State[Any]]) -> bool:
    """Whether the newest start, by a resumption, follows a cancellation of the start before. `states` are in order.

    **Example** true for Running, Cancelling, Crashed, Resuming, Pending, Running; false if the crash follows Running.
    """
    names = [state.name or "" for state in states]
    if RESUMING not in names:
        return False
    newest = len(names) - 1 - names[::-1].index(RESUMING)
    # A Retry by hand is a wish of its own, later than the cancellation.
    if any(state.is_scheduled() for state in states[newest + 1 :]):
        return False
    before = states[:newest]
    starts = [number for number, state in enumerate(before) if state.is_running()]
    since = before[starts[-1] + 1 :] if starts else before
    return any(state.is_cancelling() or state.is_cancelled() for state in since)
