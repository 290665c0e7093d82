"""Communication between a trainer and its worker processes.

A private folder holds the handover file (mode 0600, because it contains the socket's key), the socket on which rank 0
listens, the log, and after a failure one report per rank. Messages are JSON, which cannot execute code.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from components import errors
from components.config import TrainingConfig
from components.errors import TroupeError, UpdateFailed, WorkerDied
from components.frozen import Frozen
from components.training.base import UpdateResult

HANDOVER_FILE = "handover.json"
_SOCKET_FILE = "worker.sock"
LOG_FILE = "worker.log"
RENDEZVOUS_FILE = "rendezvous"
MAX_MESSAGE_BYTES = 16 << 20
"""Per job or answer: names, digests, metrics and perhaps a traceback."""


class Handover(Frozen):
    """What a worker process needs before its first job."""

    key: SecretStr
    owner_host: str
    owner: str
    """The ProcessId of the trainer's process."""
    training: TrainingConfig
    deepspeed: Mapping[str, Any]
    rendezvous: str
    """The URI of what the ranks meet through: a file on one host, an address and port of rank 0 on several."""
    own_code_folder: Path | None = None
    """The folder from which user-defined losses are imported; None if there is none."""


class Failure(Frozen):
    """An error of a rank, serialized.

    `named` is an error of our tree, `update` any other error of the worker, `lost_rank` a consequence of another rank's end.
    """

    kind: Literal["named", "update", "lost_rank"]
    name: str
    message: str


class Answer(Frozen):
    """What rank 0 sends: shares of the update while it works, then the result or the failure."""

    share: float | None = None
    result: UpdateResult | None = None
    failure: Failure | None = None


def write_handover(folder: Path, handover: Handover) -> Path:
    """Write the handover file, readable only by its owner; returns its path."""
    path = folder / HANDOVER_FILE
    values = {**handover.model_dump(mode="json"), "key": handover.key.get_secret_value()}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(values, file)
    return path


def read_handover(path: Path) -> Handover:
    """What `write_handover` wrote."""
    return Handover.model_validate_json(path.read_bytes())


@contextmanager
def socket_address(folder: Path) -> Iterator[str]:
    """The address of the socket in `folder`, valid within the block: at most 107 characters, however long the folder's path
    is, because it leads through an open descriptor."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET_FILE}"
    finally:
        os.close(descriptor)


def report_failure(folder: Path, rank: int, failure: Failure) -> None:
    """Write `failure` for the trainer, atomically."""
    partial = folder / f"failure-{rank}.partial"
    partial.write_text(failure.model_dump_json(), encoding="utf-8")
    partial.replace(folder / f"failure-{rank}.json")


def read_failures(folder: Path) -> list[Failure]:
    """The reports of all ranks, by rank."""
    return [
        Failure.model_validate_json(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("failure-*.json"))
    ]


def error_of(failure: Failure) -> TroupeError:
    """The exception that `failure` stands for."""
    if failure.kind == "named":
        named = getattr(errors, failure.name, None)
        assert isinstance(named, type), f"{failure.name} is not in the error tree"
        assert issubclass(named, TroupeError), f"{failure.name} is not in the error tree"
        return named(failure.message)
    if failure.kind == "lost_rank":
        return WorkerDied(failure.message)
    return UpdateFailed(f"{failure.name}: {failure.message}")
