"""A pool of warm boxes: the implementation of `Sandbox` for all backends.

Boxes are made and closed by threads that live as long as the pool: a backend may tie the life of a box to the thread that
started it, and no job waits until the box of another one is closed.
"""

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from components.errors import PermanentError, SandboxUnavailable
from components.sandbox.base import SandboxDescription
from components.sandbox.box import Box, BoxGone, BoxOutOfMemory, BoxTimeout
from components.sandbox.protocol import decode_answer, encode_job, without_answer
from components.schema import ExecutionResult, Limits

MAX_USES = 1000
"""The most jobs of one box."""
WALL_MARGIN_SECONDS = 10.0
"""How long a box may take beyond a program's wall limit: to kill remaining processes, to clean up, to be scheduled."""
PAUSE_SECONDS = 0.25
"""Between two attempts to make a box."""
MAX_MAKERS = 4


class BoxPool:
    """Runs programs in `description.num_boxes` warm boxes.

    The newest idle box is used first, so that few boxes stay in the processor's caches. A box is closed on any doubt and after
    1000 jobs, and replaced in the background. A job whose box is gone is retried once, in a new box; one whose box did not
    answer or ran out of memory is not.
    """

    def __init__(
        self,
        make_box: Callable[[], Box],
        *,
        description: SandboxDescription,
        start_timeout_seconds: float = 30.0,
        close_also: Callable[[], None] | None = None,
    ) -> None:
        """Start to make boxes in the background. `close_also` is called once, after the last box is closed.

        `make_box` returns a ready box, or raises: after a PermanentError (a program is not installed) jobs fail at once, after
        other errors it is called again while jobs wait.
        """
        self._make_box = make_box
        self._description = description
        self._start_timeout_seconds = start_timeout_seconds
        self._close_also = close_also
        self._owner_pid = os.getpid()
        lock = threading.Lock()
        self._served = threading.Condition(lock)
        """Jobs wait for it: a box became idle, or cannot be made."""
        self._ordered = threading.Condition(lock)
        """Makers wait for it: a box is to be made or closed."""
        self._uses: dict[Box, int] = {}
        """The number of jobs that each live box got."""
        self._idle: list[Box] = []
        self._set_aside: list[Box] = []
        """New boxes for jobs that lost theirs, of which `_num_losers` wait."""
        self._doomed: deque[Box] = deque()
        self._num_missing = description.num_boxes
        self._num_waiting = 0
        self._num_losers = 0
        self._num_replaced = 0
        self._failure: Exception | None = None
        self._dry_since = time.monotonic()
        self._closed = False
        num_makers = max(2, min(description.num_boxes, os.cpu_count() or 1, MAX_MAKERS))
        self._makers = [
            threading.Thread(target=self._keep, name="sandbox-boxes", daemon=True) for _ in range(num_makers)
        ]
        for maker in self._makers:
            maker.start()
        atexit.register(self.close)

    @property
    def description(self) -> SandboxDescription:
        return self._description

    @property
    def num_replaced(self) -> int:
        """Boxes closed and replaced so far."""
        return self._num_replaced

    def wait_ready(self) -> None:
        """Return when one box is ready. When none can be had, close the pool and raise what `run` raises."""
        try:
            box = self._take(fresh=False)
        except BaseException:
            self.close()
            raise
        self._give_back(box, reusable=True)

    def run(
        self,
        program: str,
        *,
        stdin: str = "",
        files: Mapping[str, str] | None = None,
        outputs: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> ExecutionResult:
        """See `Sandbox.run`. Raises ConfigurationError for limits, names or sizes outside the allowed ranges."""
        limits = limits or Limits()
        frame = encode_job(program, stdin=stdin, files=files or {}, outputs=outputs, limits=limits)
        failures = []
        for fresh in (False, True):
            box = self._take(fresh=fresh)
            answer, started = None, time.monotonic()
            try:
                payload = box.ask(frame, timeout_seconds=limits.wall_seconds + WALL_MARGIN_SECONDS)
                answer = decode_answer(payload, outputs=outputs, limits=limits)
                return answer.result
            except BoxOutOfMemory as error:
                detail = f"it used up the memory of its box: {error}"
                return without_answer("memory", detail, wall_seconds=time.monotonic() - started)
            except BoxGone as error:
                failures.append(str(error))
                if isinstance(error, BoxTimeout):
                    break  # a program that blocks boxes gets one, not two
            finally:
                self._give_back(box, reusable=answer is not None and answer.reusable)
        who = "a box" if len(failures) == 1 else "two boxes"
        return without_answer("sandbox_error", f"{who} failed at it: {'; '.join(failures)}")

    def close(self) -> None:
        """See `Sandbox.close`. Jobs in flight raise SandboxUnavailable."""
        if os.getpid() != self._owner_pid:
            return  # a forked copy of the owner, whose boxes these are not
        with self._served:
            if self._closed:
                return
            self._closed = True
            # Busy ones first: a job must not wait until the daemon has removed the others.
            boxes = [*sorted(self._uses, key=self._idle.__contains__), *self._doomed]
            self._served.notify_all()
            self._ordered.notify_all()
        for box in boxes:
            box.close()
        for maker in self._makers:
            maker.join(self._start_timeout_seconds)
        if self._close_also is not None:
            self._close_also()
        atexit.unregister(self.close)

    def _take(self, *, fresh: bool) -> Box:
        """An idle box; with `fresh` an unused one. Waits while boxes exist, and `start_timeout_seconds` when none does."""
        with self._served:
            source = self._set_aside if fresh else self._idle
            if not source or self._closed:
                self._wait_for(source, fresh=fresh)
            box = source.pop()
            self._uses[box] += 1
            return box

    def _wait_for(self, source: list[Box], *, fresh: bool) -> None:
        """Return when `source` has a box. Raises SandboxUnavailable, or the PermanentError that keeps boxes from being made."""
        started = time.monotonic()
        self._num_waiting += 1
        self._num_losers += fresh
        self._ordered.notify()
        try:
            while not source or self._closed:
                if self._closed:
                    raise SandboxUnavailable("the sandbox is closed")
                left = self._start_timeout_seconds
                if fresh or not self._uses:
                    if isinstance(self._failure, PermanentError):
                        raise self._failure
                    left += (started if fresh else max(started, self._dry_since)) - time.monotonic()
                if left <= 0:
                    raise SandboxUnavailable(
                        f"no box can be had within {self._start_timeout_seconds:g} s: {self._failure or 'none started'}"
                    ) from self._failure
                self._served.wait(left)
        finally:
            self._num_waiting -= 1
            self._num_losers -= fresh

    def _give_back(self, box: Box, *, reusable: bool) -> None:
        with self._served:
            if self._closed:
                return
            if reusable and self._uses[box] < MAX_USES:
                self._idle.append(box)
                self._wake_one()
                return
            del self._uses[box]
            self._doomed.append(box)
            self._num_missing += 1
            self._num_replaced += 1
            if not self._uses:
                self._dry_since = time.monotonic()
            self._ordered.notify(2)

    def _wake_one(self) -> None:
        # Losers wait on the same condition for other boxes: waking them, too, makes sure that one other thread wakes.
        if self._num_waiting:
            self._served.notify(1 + self._num_losers)

    def _keep(self) -> None:
        """The loop of a maker: close doomed boxes, make missing ones."""
        while True:
            with self._ordered:
                while not self._closed and not self._doomed and not self._may_make:
                    self._ordered.wait()
                if self._closed:
                    return
                doomed = self._doomed.popleft() if self._doomed else None
                if doomed is None:
                    self._num_missing -= 1
            if doomed is not None:
                doomed.close()
            else:
                self._make()

    @property
    def _may_make(self) -> bool:
        return self._num_missing > 0 and (self._failure is None or self._num_waiting > 0)

    def _make(self) -> None:
        """Make one box, for a loser first. The border where a backend's failure becomes that of the waiting jobs."""
        try:
            box = self._make_box()
        except Exception as error:
            with self._served:
                self._failure = error
                self._num_missing += 1
                self._served.notify_all()
                if not self._closed:
                    self._ordered.wait(PAUSE_SECONDS)
            return
        with self._served:
            self._failure = None
            if not self._closed:
                self._uses[box] = 0
                (self._set_aside if self._num_losers > len(self._set_aside) else self._idle).append(box)
                self._wake_one()
                return
        box.close()
