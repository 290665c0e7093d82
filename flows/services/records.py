"""The records of started services, one JSON file each, and the lock that lets one command change them at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.services.process import ProcessRecord


def read_record(home: Path, name: str) -> ProcessRecord | None:
    """The record of a service, running or not; None when it was never started."""
    try:
        return ProcessRecord.model_validate_json(_path(home, name).read_bytes())
    except FileNotFoundError:
        return None


def write_record(home: Path, record: ProcessRecord) -> None:
    """Keep a record. It is whole or not there at any instant."""
    path = _path(home, record.name)
    partial = path.with_suffix(".partial")
    partial.write_text(record.model_dump_json(indent=1))
    partial.replace(path)


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Hold the home folder's lock; a second command waits for the first."""
    folder = _path(home, "lock").parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _path(home: Path, name: str) -> Path:
    return home / "services" / f"{name}.json"
