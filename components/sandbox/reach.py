"""A folder that root can read, within reach of a user who could not walk the path to it."""

import ctypes
import os
import stat
import threading
from pathlib import Path

from components.errors import ConfigurationError

PLACES = ("/mnt", "/media", "/srv", "/opt")
_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_MNT_DETACH = 2


class ReachableFolder:
    """A folder and the path by which any user reaches it, in processes that the asking thread starts.

    Where a folder above it is closed to others (root's home is), each thread that asks gets a mount namespace of its own, in
    which the folder is also mounted elsewhere. Nothing of it is seen by other threads and processes, or is left behind.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._closed = next((above for above in self._folder.parents if not _lets_others_through(above)), None)
        self._mounted = threading.local()

    def path(self) -> Path:
        """Where processes find the folder that this thread starts. Raises ConfigurationError when it cannot be helped."""
        if self._closed is None or os.geteuid() != 0:
            return self._folder
        if not hasattr(self._mounted, "at"):
            self._mounted.at = self._mount()
        found: Path = self._mounted.at
        return found

    def _mount(self) -> Path:
        place = mount_place()
        why = f"none of {', '.join(PLACES)} is there"
        if place is not None:
            try:
                enter_mount_namespace()
                mount(str(self._folder), place, "", _MS_BIND)
                return place
            except OSError as error:
                why = str(error.strerror)
        raise ConfigurationError(
            f"{self._folder}: sandboxed programs cannot reach it ({why}); `chmod o+x {self._closed}` or choose "
            "another folder for the state"
        )


def mount_place() -> Path | None:
    """A folder of every system that all users reach and that can be mounted on; None where there is none."""
    places = (Path(place) for place in PLACES)
    return next((place for place in places if place.is_dir() and _lets_others_through(place)), None)


def enter_mount_namespace() -> None:
    """Give the calling thread, and what it starts, mounts of their own. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS))
    _check(libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None))


def mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    """mount(2). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(
        libc.mount(os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options))
    )


def detach(target: Path) -> None:
    """Unmount it here; whoever has it mounted elsewhere keeps it. Raises OSError."""
    _check(ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(target), _MNT_DETACH))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _lets_others_through(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)
