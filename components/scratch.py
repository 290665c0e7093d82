"""This machine's disk for what is nobody's truth: copies of checkpoints, weights on their way."""

import atexit
import fcntl
import os
import platform
import shutil
import tempfile
from functools import cache
from pathlib import Path

_HELD = ".held"
"""A file that its process keeps locked; the system lets go of it however the process ends."""


@cache
def scratch_folder() -> Path:
    """This process's folder, which goes with it. What killed processes left behind goes when the next process asks for its own.

    Raises PermissionError where somebody else owns the folder that all of them lie in.
    """
    # Machines may share TMPDIR, and not every shared file system tells one machine what another has locked.
    home = Path(tempfile.gettempdir()) / f"troupe-scratch-{os.getuid()}-{platform.node()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise PermissionError(f"{home} belongs to somebody else; set TMPDIR to a folder of your own")
    with (home / ".turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for left in home.iterdir():
            if left.is_dir() and _is_abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=home, prefix=f"{os.getpid()}-"))
        _hold(folder)
    atexit.register(_remove, folder, os.getpid())
    return folder


def _hold(folder: Path) -> None:
    # The descriptor is never closed on purpose: it is the lock.
    fcntl.flock(os.open(folder / _HELD, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)


def _is_abandoned(folder: Path) -> bool:
    try:
        with (folder / _HELD).open("r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def _remove(folder: Path, owner_pid: int) -> None:
    # A process forked from the owner inherits what happens at its exit.
    if os.getpid() == owner_pid:
        shutil.rmtree(folder, ignore_errors=True)
