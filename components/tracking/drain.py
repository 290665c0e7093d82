"""Publishing in the background: a thread drains the outbox, so that no iteration waits for the tracking server."""

import logging
import threading
import time

from components.reporting.progress import NEWS
from components.tracking.base import Tracker
from components.tracking.outbox import DrainReport, Outbox

_log = logging.getLogger(__name__)
_SECONDS_BETWEEN_LINES = 5.0
_MOST_EXTENSION = 20
"""Times of waiting: a server that takes a report now and then holds no run for hours."""


class OutboxDrain:
    """A daemon thread that drains `outbox` into `tracker` when poked, and retries while something is pending.

    Logs one warning when the tracker goes away and one line when it returns; meanwhile reports wait in the store.
    """

    def __init__(self, outbox: Outbox, tracker: Tracker, *, retry_seconds: float = 10.0) -> None:
        self._outbox = outbox
        self._tracker = tracker
        self._retry_seconds = retry_seconds
        self._changed = threading.Condition()
        self._num_asked = self._num_answered = 0
        self._is_closing = False
        self._last = DrainReport(num_published=0, num_pending=0)
        self._thread = threading.Thread(target=self._run, name="outbox-drain", daemon=True)
        self._thread.start()

    def poke(self) -> None:
        """Announce a new report. Returns at once."""
        self._ask()

    def flush(self, timeout_seconds: float, *, extends: bool = True) -> DrainReport:
        """Publish everything pending. The rest stays in the store after `timeout_seconds`, which begin anew with each published
        report, up to twenty times as long in all, if it `extends`.

        Retries a service that is away until then. `num_published` counts the last attempt.
        """
        last, left, began = None, self._outbox.num_pending, time.monotonic()
        deadline, asked = began + timeout_seconds, self._ask()
        while True:
            report = self._answer(asked, min(deadline, time.monotonic() + _SECONDS_BETWEEN_LINES))
            if report is not None and not report.may_recover:
                return report
            last, before, left = report or last, left, self._outbox.num_pending
            if extends and left < before:
                deadline = min(time.monotonic(), began + _MOST_EXTENSION * timeout_seconds) + timeout_seconds
            if deadline <= time.monotonic():
                return last or DrainReport(
                    num_published=0, num_pending=left, error="publishing takes longer", may_recover=True
                )
            if report is None:
                _log.info("%d reports are being published", left, extra=NEWS)
            else:
                time.sleep(max(0.0, min(0.5, deadline - time.monotonic())))
                asked = self._ask()

    def close(self, timeout_seconds: float, *, succeeded: bool | None = None, extends: bool = True) -> DrainReport:
        """Flush, end the thread, and if `succeeded` is given and nothing is left, mark the run's end."""
        report = self.flush(timeout_seconds, extends=extends)
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout_seconds)
        if succeeded is not None and report.error is None and not self._thread.is_alive():
            return self._outbox.finish(self._tracker, succeeded=succeeded)
        return report

    def _ask(self) -> int:
        """Ask for an attempt, and return its number."""
        with self._changed:
            self._num_asked += 1
            self._changed.notify_all()
            return self._num_asked

    def _answer(self, asked: int, deadline: float) -> DrainReport | None:
        """The report of an attempt that began after the one of this number was asked for, or None after `deadline`."""
        with self._changed:
            if self._changed.wait_for(lambda: self._num_answered >= asked, max(0.0, deadline - time.monotonic())):
                return self._last
        return None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_closing or self._num_asked > self._num_answered,
                    self._retry_seconds if self._last.error else None,
                )
                if self._is_closing:
                    return
                asked = self._num_asked
            report = self._attempt()
            self._announce(report)
            with self._changed:
                self._last, self._num_answered = report, asked
                self._changed.notify_all()

    def _attempt(self) -> DrainReport:
        try:
            return self._outbox.drain(self._tracker)
        except Exception as error:  # the border of a thread: an escaping exception would end it silently
            if str(error) != self._last.error:
                _log.exception("the outbox cannot be drained")
            return DrainReport(num_published=0, num_pending=self._outbox.num_pending, error=str(error) or repr(error))

    def _announce(self, report: DrainReport) -> None:
        if report.error is not None and self._last.error is None:
            num_waiting = report.num_pending
            waiting = f"{num_waiting} reports wait in the store" if num_waiting else "nothing is published"
            _log.log(logging.INFO if report.is_expected else logging.WARNING, "%s: %s", waiting, report.error)
        elif report.error is None and self._last.error is not None:
            _log.info("tracking is back: %d reports published, none waits", report.num_published)
