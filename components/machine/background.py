"""Background work on one thread, in order, ended by the first error."""

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundWorker:
    """One thread that runs tasks in order. After an error it runs no more and raises that error.

    **Example** `future = behind.submit(lambda: post(page))` returns at once; `behind.raise_errors()` waits for it and all
    earlier tasks, and raises the first error.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._last: Future[Any] | None = None
        self._error: BaseException | None = None

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        """The future of `work`, which runs with the caller's context variables. All tasks after an error raise it."""
        future = self._pool.submit(copy_context().run, self._done, work)
        self._last = future
        return future

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Wait for all tasks, without raising."""
        if self._last is not None:
            with suppress(CancelledError, TimeoutError):
                self._last.exception(timeout_seconds)

    def raise_errors(self) -> None:
        """Wait for all tasks; raise the first error."""
        self.wait()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Cancel tasks that have not started; leave a running one to end by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, work: Callable[[], T]) -> T:
        if self._error is not None:
            raise self._error
        try:
            return work()
        except BaseException as error:
            self._error = error
            raise
