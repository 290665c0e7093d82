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
        place = next((place for place in PLACES if os.path.isdir(place) and _lets_others_through(Path(place))), None)
        libc = ctypes.CDLL(None, use_errno=True)
        if place is None or not (
            libc.unshare(_CLONE_NEWNS) == 0
            and libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None) == 0
            and libc.mount(os.fsencode(self._folder), place.encode(), None, _MS_BIND, None) == 0
        ):
            why = os.strerror(ctypes.get_errno()) if place else f"none of {', '.join(PLACES)} is there"
            raise ConfigurationError(
                f"{self._folder}: sandboxed programs cannot reach it ({why}); `chmod o+x {self._closed}` or choose "
                "another folder for the state"
            )
        return Path(place)


def _lets_others_through(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)
