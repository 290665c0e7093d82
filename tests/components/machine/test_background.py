"""Work behind whoever asks for it: in order, with his context, and not after an error."""

import threading
from contextvars import ContextVar

import pytest

from components.machine.background import BackgroundWorker

_number: ContextVar[int] = ContextVar("number")


def test_work_is_done_in_order_by_another_thread_with_the_context_of_its_giver() -> None:
    behind, done = BackgroundWorker("behind"), []
    for number in range(20):
        _number.set(number)
        behind.submit(lambda: done.append((_number.get(), threading.current_thread() is threading.main_thread())))
    behind.raise_errors()
    assert done == [(number, False) for number in range(20)]


def test_after_an_error_nothing_more_is_done_and_everybody_hears_of_it() -> None:
    behind, done = BackgroundWorker("behind"), []
    first = behind.submit(lambda: 1 / 0)
    second = behind.submit(lambda: done.append("second"))
    for wait in (behind.raise_errors, first.result, second.result, behind.submit(lambda: 3).result):
        with pytest.raises(ZeroDivisionError):
            wait()
    behind.wait()
    assert done == []


def test_what_has_not_begun_when_it_is_closed_is_not_done() -> None:
    behind, begun, released, done = BackgroundWorker("behind"), threading.Event(), threading.Event(), []
    first = behind.submit(lambda: (begun.set(), released.wait(60)))
    behind.submit(lambda: done.append("late"))
    assert begun.wait(60)
    behind.close()
    released.set()
    assert first.result(60) == (None, True)
    behind.wait()
    assert done == []


def test_waiting_ends_in_time_though_the_work_does_not() -> None:
    behind, released = BackgroundWorker("behind"), threading.Event()
    behind.submit(lambda: released.wait(60))
    behind.wait(0.01)
    released.set()
    behind.raise_errors()
