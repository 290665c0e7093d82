"""Private files of the local services: random secrets, created once, among them the password of Prefect and MLflow."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from components.errors import ConfigurationError

USER = "troupe"
"""The user name of a home folder's Prefect and MLflow servers."""


def password_file(home: Path) -> Path:
    """The file of the password, readable by its owner alone."""
    return home / "password"


def ensure_password(home: Path) -> str:
    """The password, created if there is none. Raises ConfigurationError if others can read it."""
    try:
        return ensure_secret(password_file(home))
    except PermissionError as error:
        raise ConfigurationError(str(error)) from error


def ensure_secret(path: Path) -> str:
    """The 43 characters in `path`, created once, even by two processes. Raises PermissionError if others may read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    if not path.exists():
        _create_private(partial, secrets.token_urlsafe(32).encode())
        with suppress(FileExistsError):
            os.link(partial, path)
        partial.unlink()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
        state = os.fstat(file.fileno())
        if state.st_uid != os.getuid() or state.st_mode & 0o077:
            raise PermissionError(f"{path} can be read by others than this user; remove it and start again")
        return file.read()


def write_private(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically, with mode 0600."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    _create_private(partial, content)
    partial.replace(path)


def _create_private(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
