"""The records of started services, one JSON file each, and the lock around changing them."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.errors import ConfigurationError
from infra.services.process import ProcessRecord
from infra.services.secrets import write_private

PRIVATE = ("logs", "mlflow", "prefect", "s3", "services", "vllm")


def read_record(home: Path, name: str) -> ProcessRecord | None:
    """The record of a service, running or not; None if it was never started."""
    try:
        return ProcessRecord.model_validate_json(_path(home, name).read_bytes())
    except FileNotFoundError:
        return None


def write_record(home: Path, record: ProcessRecord) -> None:
    """Write a record atomically."""
    write_private(_path(home, record.name), record.model_dump_json(indent=1).encode())


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the lock of the home folder, made private first; a second command waits for the first."""
    make_private(home)
    with (home / "services" / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_private(home: Path) -> None:
    """Restrict the folder, created if missing, and the services' folders in it to this user. Raises ConfigurationError."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = home.stat().st_uid
    if owner != os.geteuid():
        raise ConfigurationError(
            f"{home} belongs to another user (uid {owner}); point TROUPE_HOME at a folder of your own"
        )
    # Sandboxed programs of root run as another user: they may pass through to their files, and list nothing.
    home.chmod(0o711 if owner == 0 else 0o700)
    (home / "services").mkdir(mode=0o700, exist_ok=True)
    for folder in (home / name for name in PRIVATE):
        if folder.exists():
            folder.chmod(0o700)


def _path(home: Path, name: str) -> Path:
    return home / "services" / f"{name}.json"
