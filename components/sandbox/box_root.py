"""Root file systems for bubblewrap's boxes: one tree for all, and for each box files of its own in the kernel's eyes."""

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from components.errors import ConfigurationError
from components.sandbox.reach import ReachableFolder, detach, enter_mount_namespace, mount, mount_place

DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
"""The devices of a box, by their minor numbers; their major number is 1."""
_MS_NOSUID = 2


class BoxRoot(NamedTuple):
    """Where a starting box finds its root file system, and the folder of its devices."""

    folder: Path
    devices: Path


class BoxRoots:
    """Roots for many boxes over one folder, which is never written to.

    A lock on a file, and a watch, are seen by all who open the same file. So every box gets an overlay of its own, devices
    included, as root where the kernel has overlays. Elsewhere, as `own` tells, boxes open the same files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._reachable = ReachableFolder(folder)
        self._entered = threading.local()
        self.own = os.geteuid() == 0 and _in_a_thread(self._try)

    @contextlib.contextmanager
    def one(self) -> Iterator[BoxRoot]:
        """A root for one box, which the calling thread starts before the block ends. Raises ConfigurationError."""
        if not self.own:
            yield BoxRoot(self._reachable.path(), Path("/dev"))
            return
        place = self._enter()
        mount("tmpfs", place, "tmpfs", _MS_NOSUID, "size=256k,mode=755")
        try:
            _lay_out(place)
            mount("overlay", place / "root", "overlay", _MS_NOSUID, _layers(place, self._folder))
            yield BoxRoot(place / "root", place / "root/dev")
        finally:
            detach(place)

    def _enter(self) -> Path:
        """Where this thread mounts, in a mount namespace of its own of which nothing is seen elsewhere or left behind."""
        place = mount_place()
        if place is None:
            raise OSError("no folder to mount on")
        if not hasattr(self._entered, "yes"):
            enter_mount_namespace()
            self._entered.yes = True
        return place

    def _try(self) -> None:
        self.own = True
        with self.one() as root, (root.devices / "null").open("wb") as null:
            null.write(b"x")


def _lay_out(place: Path) -> None:
    """Folders for an overlay, and a first layer with devices."""
    for name in ("root", "upper", "work", "layer", "layer/dev"):
        (place / name).mkdir()
        (place / name).chmod(0o755)
    for name, minor in DEVICES.items():
        device = place / "layer/dev" / name
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        device.chmod(0o666)


def _layers(place: Path, folder: Path) -> str:
    """The options of the overlay. It could be written to: boxes mount it read-only, as Docker daemons do."""
    escaped = "".join(f"\\{each}" if each in "\\:," else each for each in str(folder))
    return f"lowerdir={place}/layer:{escaped},upperdir={place}/upper,workdir={place}/work"


def _in_a_thread(act: Callable[[], None]) -> bool:
    """Whether `act` succeeds, in a thread that ends with it, so that what it mounts does too."""
    worked = []

    def run() -> None:
        with contextlib.suppress(OSError, ConfigurationError):
            act()
            worked.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return bool(worked)
