"""Root file systems for bubblewrap's boxes: one tree for all, and for each box its own files in the kernel's eyes."""

import contextlib
import ctypes
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from components.errors import ConfigurationError

DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
"""The devices of a box, with their minor numbers; the major number is 1."""
PLACES = ("/mnt", "/media", "/srv", "/opt")
"""Folders that every system has and every user reaches. One of them is mounted on, in a mount namespace of the thread."""
_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_BIND, _MS_REC, _MS_SLAVE = 0x2, 0x1000, 0x4000, 0x80000
_MNT_DETACH = 2
_LIBC = ctypes.CDLL(None, use_errno=True)


class BoxRoot(NamedTuple):
    """Where a starting box finds its root file system, and the folder of its devices."""

    folder: Path
    devices: Path


class BoxRoots:
    """Roots for many boxes over one folder, which stays unchanged.

    A lock on a file, and a watch, are seen by all who open the same file. So as root, where the kernel has overlays, every box
    gets an overlay of its own, devices included. Elsewhere boxes open the same files, and `own` is False.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._closed = next((above for above in self._folder.parents if not _lets_others_through(above)), None)
        self._entered = threading.local()
        self.own = True
        self.own = os.geteuid() == 0 and _in_a_thread(self._try)

    @contextlib.contextmanager
    def one(self) -> Iterator[BoxRoot]:
        """A root for one box, which the calling thread starts before the block ends.

        Raises ConfigurationError where the box's user could not reach the folder.
        """
        if not self.own and (self._closed is None or os.geteuid() != 0):
            yield BoxRoot(self._folder, Path("/dev"))
            return
        try:
            place = self._mount()
        except OSError as error:
            if self.own:
                raise
            raise ConfigurationError(
                f"{self._folder}: sandboxed programs cannot reach it ({error.strerror}); `chmod o+x {self._closed}` or "
                "choose another folder for the state"
            ) from error
        try:
            yield self._overlay(place) if self.own else BoxRoot(place, Path("/dev"))
        finally:
            _check(_LIBC.umount2(os.fsencode(place), _MNT_DETACH))

    def _mount(self) -> Path:
        """One of `PLACES`, with an empty file system or the folder mounted on it for this thread and what it starts."""
        place = _find_place()
        if not hasattr(self._entered, "yes"):
            _leave_mounts()
            self._entered.yes = True
        if self.own:
            _mount("tmpfs", place, "tmpfs", _MS_NOSUID, "size=256k,mode=755")
        else:
            _mount(str(self._folder), place, "", _MS_BIND)
        return place

    def _overlay(self, place: Path) -> BoxRoot:
        """An overlay below `place`. It could be written to: boxes mount it read-only, as Docker daemons do."""
        for name in ("root", "upper", "work", "layer", "layer/dev"):
            (place / name).mkdir()
            (place / name).chmod(0o755)
        for name, minor in DEVICES.items():
            device = place / "layer/dev" / name
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            device.chmod(0o666)
        folder = "".join(f"\\{each}" if each in "\\:," else each for each in str(self._folder))
        layers = f"lowerdir={place}/layer:{folder},upperdir={place}/upper,workdir={place}/work"
        _mount("overlay", place / "root", "overlay", _MS_NOSUID, layers)
        return BoxRoot(place / "root", place / "root/dev")

    def _try(self) -> None:
        with self.one() as root, (root.devices / "null").open("wb") as null:
            null.write(b"x")


@contextlib.contextmanager
def mounted_root(places: Mapping[str, str]) -> Iterator[list[str]]:
    """The arguments with which bubblewrap, started by this thread before the block ends, has a root of these places, read-only.

    By place: a folder or file of this machine, "->TARGET" for a link, "" for an empty folder. As root they are mounted first,
    in a namespace that the thread then keeps: the box's user could not reach them all. Raises OSError.
    """
    shown = _drop_covered(places)
    if os.geteuid() != 0:
        yield [word for place, source in shown.items() for word in _show(place, source)]
        return
    root = _find_place()
    _leave_mounts()
    _mount("tmpfs", root, "tmpfs", _MS_NOSUID, "size=1m,mode=755")
    try:
        for place, source in shown.items():
            _fill_place(root / place[1:], source)
        yield ["--ro-bind", str(root), "/"]
    finally:
        _check(_LIBC.umount2(os.fsencode(root), _MNT_DETACH))


def _drop_covered(places: Mapping[str, str]) -> dict[str, str]:
    """The places in order, without those that are part of another one."""
    real = {place: os.path.realpath(place) for place, source in places.items() if source == place}
    covered = {place for place, path in real.items() if any(path.startswith(f"{other}/") for other in real.values())}
    return {place: places[place] for place in sorted(places) if place not in covered}


def _show(place: str, source: str) -> tuple[str, ...]:
    if not source:
        return ("--dir", place)
    return ("--symlink", source[2:], place) if source.startswith("->") else ("--ro-bind", source, place)


def _fill_place(place: Path, source: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.startswith("->"):
        place.symlink_to(source[2:])
        return
    if not source or os.path.isdir(source):
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    if source:
        _mount(source, place, "", _MS_BIND | _MS_REC)


def _find_place() -> Path:
    """One of `PLACES`. Raises FileNotFoundError."""
    place = next((place for place in map(Path, PLACES) if place.is_dir() and _lets_others_through(place)), None)
    if place is None:
        raise FileNotFoundError(errno.ENOENT, f"none of {', '.join(PLACES)} is there")
    return place


def _leave_mounts() -> None:
    """Give this thread mounts of its own, which follow those of the others."""
    _check(_LIBC.unshare(_CLONE_NEWNS))
    _check(_LIBC.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None))


def _in_a_thread(act: Callable[[], None]) -> bool:
    """Whether `act` succeeds, in a thread of its own, so that its mounts end with it."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        try:
            thread.submit(act).result()
        except (OSError, ConfigurationError):
            return False
        return True


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    texts = (os.fsencode(source), os.fsencode(target), kind.encode())
    _check(_LIBC.mount(*texts, ctypes.c_ulong(flags), os.fsencode(options)))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _lets_others_through(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)
