"""Threads of a flow that is interrupted hold nobody up; those of a flow that fails are waited for."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from components.machine.outages import interruptible, is_interrupted
from flows.prefect_runtime.interruptible_flow import ThreadRunner


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()
    with interruptible():  # forget the interruption
        pass


def end_by(error: BaseException, work: Callable[[], object]) -> None:
    """A flow that `error` ends while a thread of its runner works."""
    with ThreadRunner(max_workers=1) as runner:
        assert runner._executor is not None
        begun = threading.Event()
        runner._executor.submit(lambda: (begun.set(), work()))
        assert begun.wait(60)
        raise error


def test_an_interrupted_flow_waits_for_no_thread(released: threading.Event) -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        end_by(KeyboardInterrupt(), lambda: released.wait(120))
    assert time.monotonic() - started < 60
    assert is_interrupted()


def test_a_failed_flow_waits_for_its_threads(released: threading.Event) -> None:
    done: list[bool] = []
    with pytest.raises(ValueError, match="failed"):
        end_by(ValueError("failed"), lambda: (time.sleep(0.2), done.append(True)))
    assert done == [True]
    assert not is_interrupted()
