"""Empties a folder without making Python objects of the names in it. Runs inside the box: standard library only."""

import ctypes
import errno
import os
import struct
from typing import NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_ENTRY = struct.Struct("=QqHB")
"""What precedes each name: inode, offset, length of the entry, type."""
_BATCH = ctypes.create_string_buffer(1 << 14)
_AT_FDCWD, _AT_REMOVEDIR = -100, 0x200


def empty(folder: str) -> None:
    """Remove everything in `folder`, and make it the working directory. Raises OSError.

    Names that a program chose never become Python objects of this process: the next program would find them in the memory
    that it inherits. Links are not followed. A folder that is not empty is entered, and removed from its parent once it is
    empty, so any depth works, at the same cost per entry.
    """
    os.chdir(folder)
    depth = 0
    while depth >= 0:
        step = _remove_some()
        if step < 0 and depth > 0:
            os.chdir("..")
        depth += step
    ctypes.memset(_BATCH, 0, len(_BATCH))


def _remove_some() -> int:
    """Remove some entries of the working directory. Returns 1 if a folder was entered, -1 if there were no entries, else 0."""
    found = False
    for name in _list():
        found = True
        if not _LIBC.unlinkat(_AT_FDCWD, name, 0):
            continue
        if ctypes.get_errno() != errno.EISDIR:
            _fail()
        if not _LIBC.unlinkat(_AT_FDCWD, name, _AT_REMOVEDIR):
            continue
        if ctypes.get_errno() != errno.ENOTEMPTY or _LIBC.chmod(name, 0o700) or _LIBC.chdir(name):
            _fail()
        return 1
    return 0 if found else -1


def _list() -> list[ctypes.c_void_p]:
    """The addresses in `_BATCH` of the first names in the working directory."""
    handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        num_bytes = _LIBC.getdents64(handle, _BATCH, len(_BATCH))
    finally:
        os.close(handle)
    if num_bytes < 0:
        _fail()
    start, names = 0, []
    while start < num_bytes:
        name = start + _ENTRY.size
        if not _is_dots(name):
            names.append(ctypes.c_void_p(ctypes.addressof(_BATCH) + name))
        start += _ENTRY.unpack_from(_BATCH, start)[2]
    return names


def _is_dots(name: int) -> bool:
    """Whether the name at this offset is "." or ".."."""
    first, second, third = (_BATCH[name + place] for place in range(3))
    return first == b"." and (second == b"\0" or (second == b"." and third == b"\0"))


def _fail() -> NoReturn:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
