"""No orphans: a worker process ends itself when its owner is gone, whatever it is doing."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from components.machine.process_ids import ProcessId

_POLL_SECONDS = 0.5
_LAST_SECONDS = 20
_DYING_SECONDS = 0.2
"""How long an owner that is killed may take to be gone once its connections are closed."""
ORPHANED_EXIT_CODE = 86
"""The exit code of a worker whose owner died."""


def exit_with_parent(owner: ProcessId, *, folder: Path) -> Callable[[], None]:
    """End this process as soon as its parent changes or `owner` is gone, which also removes `folder`.

    A polling thread works during a kernel or a wait for another rank, where a signal handler would not run. What is returned
    is to be called before this process ends by itself, as it does when its connection to the owner is closed: it leaves the
    end to the thread if the owner is gone.
    """
    parent = os.getppid()

    def watch() -> None:
        while not owner.is_gone() and os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        if owner.is_gone():
            # By the kernel, because the main thread may hold the interpreter lock while it waits for a file in `folder`.
            signal.alarm(_LAST_SECONDS)
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(ORPHANED_EXIT_CODE)

    watching = threading.Thread(target=watch, name="owner-watch", daemon=True)
    watching.start()

    def leave() -> None:
        deadline = time.monotonic() + _DYING_SECONDS
        while not owner.is_gone():
            if time.monotonic() > deadline:
                return
            time.sleep(_DYING_SECONDS / 10)
        watching.join()

    return leave
