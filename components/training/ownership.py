"""No orphans: a worker process ends itself when the process that owns it is gone, whatever it is doing."""

import os
import shutil
import signal
import threading
import time
from pathlib import Path

from components.processes import ProcessId

_POLL_SECONDS = 0.5
_LAST_SECONDS = 2
ORPHANED_EXIT_CODE = 86
"""How a worker ends when its owner died."""


def end_with(owner: ProcessId, *, folder: Path) -> None:
    """From now on end this process at once when `owner` is gone, and `folder` with it, or when its own parent changes.

    A thread that polls survives what a signal handler does not: a step inside a kernel, or a wait for another rank.
    """
    parent = os.getppid()

    def watch() -> None:
        while not owner.is_gone() and os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        if owner.is_gone():
            # The system's own end: the rank may be about to wait, with the interpreter in its hands, for what goes here.
            signal.alarm(_LAST_SECONDS)
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
