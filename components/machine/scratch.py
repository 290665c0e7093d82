"""Scratch space on this machine for disposable copies: checkpoints, weights in transit.

The folder for temporary files is shared: another user may have put a link under any predictable name.
"""

import atexit
import fcntl
import os
import platform
import shutil
import stat
import tempfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

_HELD = ".held"
"""A file that its process keeps locked; the system releases it however the process ends."""
SHORT_PARENT = Path("/tmp")
LONGEST_PARENT = 12
"""Characters of a folder below which other programs make sockets. Their paths have at most 107; Ray adds 67, vLLM 43."""


@cache
def scratch_folder(*, for_sockets: bool = False) -> Path:
    """This process's folder, removed at exit. The folders of killed processes are removed by the next call in any process.

    `for_sockets`: another one, with a short path.
    """
    home = socket_folder("troupe-sockets") if for_sockets else private_folder("troupe-scratch")
    with (home / ".turn").open("w", encoding="utf-8") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for left in home.iterdir():
            if left.is_dir() and _is_abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=home, prefix=f"{os.getpid()}-"))
        # The descriptor is intentionally never closed: it is the lock.
        fcntl.flock(os.open(folder / _HELD, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)
    atexit.register(_remove, folder, os.getpid())
    return folder


def private_folder(name: str) -> Path:
    """This user's private folder `name` for temporary files on this machine, created if missing.

    Raises PermissionError, with the folder and the remedy, if it is a link, owned by or open to other users, or if they could
    replace it.

    **Example** `private_folder("troupe-worker")`: /tmp/troupe-worker-1000-5f3a9c51.
    """
    return _private_folder(name, Path(tempfile.gettempdir()).resolve())


def socket_folder(name: str) -> Path:
    """This user's private folder `name` for programs that make sockets below it: in the folder for temporary files, or in
    /tmp if that one's path is too long. Raises PermissionError as `private_folder` does."""
    parent = Path(tempfile.gettempdir()).resolve()
    return _private_folder(name, parent if len(os.fsencode(parent)) <= LONGEST_PARENT else SHORT_PARENT)


def _private_folder(name: str, parent: Path) -> Path:
    _check_parent(parent)
    # Machines may share TMPDIR, and not every shared file system shares locks.
    folder = parent / f"{name}-{os.getuid()}-{zlib.crc32(platform.node().encode()):08x}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is a link or belongs to another user; set TMPDIR to a folder of your own")
    if found.st_mode & 0o077:
        raise PermissionError(f"{folder} is open to others, who may have put files into it; remove it and start again")
    return folder


def _check_parent(parent: Path) -> None:
    """Raise PermissionError if other users can rename files in `parent`."""
    found = parent.stat()
    shared = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
    if shared or found.st_uid not in (0, os.getuid()):
        raise PermissionError(f"other users can replace files in {parent}; set TMPDIR to a folder of your own")


def _is_abandoned(folder: Path) -> bool:
    try:
        with (folder / _HELD).open("r+", encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def _remove(folder: Path, owner_pid: int) -> None:
    # A forked process inherits the exit handlers.
    if os.getpid() == owner_pid:
        shutil.rmtree(folder, ignore_errors=True)
