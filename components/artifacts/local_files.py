"""Files on a local disk: written under a temporary name and synced; operating-system errors become store errors."""

import errno
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from components.errors import StoreRefused, StoreUnavailable

PART_PREFIX = ".part-"
"""Prefix of the name of a file that is being written; no key begins so."""

ContentSource = bytes | Path | Iterable[bytes]
"""The bytes, the file that holds them, or chunks as they arrive."""

_CHUNK_BYTES = 1 << 20
_MOST_ATTEMPTS = 100
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EOPNOTSUPP}


@contextmanager
def store_errors(place: Path, *, use: Literal["written", "read", "filled"] = "written") -> Iterator[None]:
    """Turn OSErrors into StoreRefused (full, forbidden) or StoreUnavailable, naming `place` and the remedy.

    "filled" is for a folder outside the store to which stored files are copied.
    """
    other = "another folder (set TMPDIR if none was named)" if use == "filled" else "another store"
    remedy = f"{'' if use == 'filled' else ' (troupe gc removes what no run refers to)'} or choose {other}"
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreRefused(f"no space left for {place}: free some{remedy}") from error
        if error.errno in _FORBIDDEN:
            done = "read" if use == "read" else "written"
            raise StoreRefused(
                f"{place} cannot be {done} ({error.strerror}): check its owner and mode, or choose {other}"
            ) from error
        raise StoreUnavailable(f"{place}: {error}") from error


def write_part(target: Path, source: ContentSource, *, sync: bool = True) -> tuple[Path, tuple[str, int]]:
    """A complete temporary file beside `target`, and the (sha256, num_bytes) of its content.

    The caller renames or links it. Leaves no file when it raises.
    """
    part = target.with_name(f"{PART_PREFIX}{secrets.token_hex(8)}")
    descriptor = _open_part(part)
    digest, num_bytes = hashlib.sha256(), 0
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            for chunk in _chunks(source):
                digest.update(chunk)
                num_bytes += len(chunk)
                view = memoryview(chunk)
                while view:
                    view = view[file.write(view) :]
            if sync:
                os.fsync(file.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part, (digest.hexdigest(), num_bytes)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable, if it still exists."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_part(part: Path) -> int:
    # Another process may remove the empty directory before this file is in it, or while mkdir checks what it found.
    for _ in range(_MOST_ATTEMPTS):
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except (FileNotFoundError, FileExistsError) as error:
            found = error
    if isinstance(found, FileExistsError):
        raise found
    raise StoreUnavailable(f"{part.parent} disappears as soon as it is created") from found


def _chunks(source: ContentSource) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
    elif isinstance(source, Path):
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
    else:
        yield from source
