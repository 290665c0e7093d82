"""Waiting for a service that does not answer, with log messages, until an interruption."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)
_FIRST_NOTICE_SECONDS = 5.0
_LONGEST_SILENCE_SECONDS = 60.0
_SAME_OUTAGE_SECONDS = 120.0
"""Failures that are further apart count as different outages."""
_interrupted = threading.Event()


def interrupt() -> None:
    """Announce that this process is asked to end. Ends all waits for services."""
    _interrupted.set()


def is_interrupted() -> bool:
    """Whether `interrupt` was called since the last `interruptible` block began."""
    return _interrupted.is_set()


@contextmanager
def interruptible() -> Iterator[None]:
    """Work that may wait for services. A signal, unlike an error, ends the waits of all its threads."""
    _interrupted.clear()
    try:
        yield
    except Exception:
        raise
    except BaseException:
        interrupt()
        raise


class Outage:
    """An outage of a service, shared by all threads that call it, and the time limit of their waits.

    Logs a line after 5 s, then after twice the time, and at least each minute: "S3 does not answer since 40 s; giving up in
    560 s".
    """

    def __init__(self, service: str, patience_seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self.patience_seconds = patience_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._failed_at = 0.0
        self._next_notice_seconds = _FIRST_NOTICE_SECONDS

    def record_failure(self) -> float:
        """Record a failure. Returns the clock's time at which its outage began."""
        with self._lock:
            now = self._clock()
            if self._since is None or now - self._failed_at > _SAME_OUTAGE_SECONDS:
                self._since, self._next_notice_seconds = now, _FIRST_NOTICE_SECONDS
            self._failed_at = now
            return self._since

    def backoff(self, delay_seconds: float, *, since: float, patience_seconds: float | None = None) -> bool:
        """Sleep before the next attempt of a call that has been failing since `since`.

        Returns False at once if that would exceed `patience_seconds` (None: the outage's) or if this process was interrupted.
        """
        now = self._clock()
        left_seconds = since + (self.patience_seconds if patience_seconds is None else patience_seconds) - now
        if delay_seconds > left_seconds or _interrupted.is_set():
            return False
        self._notice(now - since, left_seconds)
        return not _interrupted.wait(delay_seconds)

    def record_success(self) -> None:
        """Record a response."""
        if self._since is None:
            return
        with self._lock:
            was_told = self._since is not None and self._next_notice_seconds > _FIRST_NOTICE_SECONDS
            seconds = self._clock() - (self._since or 0.0)
            self._since, self._next_notice_seconds = None, _FIRST_NOTICE_SECONDS
        if was_told:
            _log.warning("%s answers again, after %.0f s", self._service, seconds)

    def _notice(self, seconds: float, left_seconds: float) -> None:
        with self._lock:
            if seconds < self._next_notice_seconds:
                return
            self._next_notice_seconds = seconds + min(seconds, _LONGEST_SILENCE_SECONDS)
        _log.warning("%s does not answer since %.0f s; giving up in %.0f s", self._service, seconds, left_seconds)
