"""A file that one at a time holds, among all threads and processes of a machine."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hold_file(path: Path) -> Iterator[None]:
    """Within the block nobody else is in a block of this path. The file is made and removed; the system releases it however its
    holder ends."""
    while True:
        with path.open("w", encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            if not _is_at(held.fileno(), path):
                continue  # its last holder has removed it
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
