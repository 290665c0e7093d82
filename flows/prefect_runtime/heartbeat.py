"""One heartbeat per process: that of the parent flow."""

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings


@contextmanager
def disable_child_heartbeat() -> Iterator[None]:
    """Disable heartbeats of child flows started inside; the parent's shows that the process lives.

    A child's heartbeat comes from a thread that sleeps in whole seconds and is joined at the child's end, which costs half a
    second per iteration.
    """
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield
