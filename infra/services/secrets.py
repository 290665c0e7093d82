"""Secrets of the local services: random, made once, in files that only their owner can read."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def ensure_secret(path: Path) -> str:
    """The secret in `path`, 43 characters of URL-safe base64; made where there is none. The file's mode is 0600.

    Of two processes that make it at once both return the one that is kept. Raises PermissionError where somebody else owns
    the file, or where others may read it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    if not path.exists():
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
        with suppress(FileExistsError):
            os.link(partial, path)
        partial.unlink()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
        state = os.fstat(file.fileno())
        if state.st_uid != os.getuid() or state.st_mode & 0o077:
            raise PermissionError(f"{path} can be read by others than this user; remove it and start again")
        return file.read()
