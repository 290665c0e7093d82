"""Waiting for a service that does not answer: how long, what is said meanwhile, and that an interruption ends it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)
_FIRST_NOTICE_SECONDS = 5.0
_LONGEST_SILENCE_SECONDS = 60.0
_SAME_OUTAGE_SECONDS = 120.0
"""Failures that lie further apart belong to different outages: nobody knows what the service did in between."""
_interrupted = threading.Event()


def interrupt() -> None:
    """Say that this process has been asked to end: nobody in it waits for an absent service any more."""
    _interrupted.set()


def is_interrupted() -> bool:
    """Whether `interrupt` was called since the last `patient` work began."""
    return _interrupted.is_set()


@contextmanager
def patient() -> Iterator[None]:
    """Work that may wait for services. What interrupts it, a signal and no error, ends the waits of all its threads."""
    _interrupted.clear()
    try:
        yield
    except Exception:
        raise
    except BaseException:
        interrupt()
        raise


class Outage:
    """How long a service has not answered, for all threads that call it, and how long they go on waiting.

    What is said is one line after five seconds, the next after twice the time, and at least one each minute:
    "S3 does not answer since 40 s; giving up in 560 s".
    """

    def __init__(self, service: str, patience_seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self.patience_seconds = patience_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._failed_at = 0.0
        self._next_notice_seconds = _FIRST_NOTICE_SECONDS

    def began_at(self) -> float:
        """Take note of a failure; when the outage that it belongs to began, on the clock."""
        with self._lock:
            now = self._clock()
            if self._since is None or now - self._failed_at > _SAME_OUTAGE_SECONDS:
                self._since, self._next_notice_seconds = now, _FIRST_NOTICE_SECONDS
            self._failed_at = now
            return self._since

    def waited(self, delay_seconds: float, *, since: float, patience_seconds: float | None = None) -> bool:
        """Sleep before the next attempt at what has failed since `since`.

        False, at once, when patience (None: the outage's) would be at its end by then, or when this process was asked to end.
        """
        now = self._clock()
        left_seconds = since + (self.patience_seconds if patience_seconds is None else patience_seconds) - now
        if delay_seconds > left_seconds or _interrupted.is_set():
            return False
        self._notice(now - since, left_seconds)
        return not _interrupted.wait(delay_seconds)

    def over(self) -> None:
        """Take note of an answer."""
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
