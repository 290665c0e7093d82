"""No orphans: a worker process ends itself when the process that owns it is gone, whatever it is doing."""

import os
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_POLL_SECONDS = 0.5
_CLOCK_TOLERANCE_SECONDS = 5.0  # start times are derived from the boot time, which moves when the clock is set
ORPHANED_EXIT_CODE = 86
"""How a worker ends when its owner died."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process by number and start time, because numbers are used again."""

    pid: int
    started_at: float

    @property
    def alive(self) -> bool:
        """Whether that very process still runs; a zombie does not."""
        try:
            process = psutil.Process(self.pid)
            drift_seconds: float = process.create_time() - self.started_at
            zombie: bool = process.status() == psutil.STATUS_ZOMBIE
            return abs(drift_seconds) < _CLOCK_TOLERANCE_SECONDS and not zombie
        except psutil.NoSuchProcess:
            return False


def this_process() -> Owner:
    """The calling process as an owner."""
    return Owner(os.getpid(), psutil.Process().create_time())


def end_with(owner: Owner, *, folder: Path) -> None:
    """From now on end this process at once when `owner` is gone, and `folder` with it, or when its own parent changes.

    A thread that polls survives what a signal handler does not: a step inside a kernel, or a wait for another rank.
    """
    parent = os.getppid()

    def watch() -> None:
        while owner.alive and os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        if not owner.alive:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(ORPHANED_EXIT_CODE)

    threading.Thread(target=watch, name="owner-watch", daemon=True).start()


def end_with_input() -> None:
    """From now on end this process at once when its standard input ends: the connection of another host that started it."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os._exit(ORPHANED_EXIT_CODE)

    threading.Thread(target=watch, name="input-watch", daemon=True).start()
