"""The trainer's socket and files are its owner's alone."""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from components.training.trainer import DeepSpeedTrainer
from components.training.worker_protocol import HANDOVER_FILE, LOG_FILE
from tests.other_users import as_stranger, needs_another_user


@pytest.fixture
def worker(trainer: DeepSpeedTrainer) -> psutil.Process:
    """The worker process of the trainer, which runs."""
    trainer.start()
    return next(process for process in psutil.Process().children(recursive=True) if _runs_worker(process))


def _runs_worker(process: psutil.Process) -> bool:
    """False for a zombie, which has no command line."""
    with suppress(psutil.NoSuchProcess):
        return "components.training" in process.cmdline()
    return False


@pytest.fixture
def folder(worker: psutil.Process) -> Path:
    """The private folder of the two."""
    (handover,) = [word for word in worker.cmdline() if word.startswith("--handover=")]
    return Path(handover.removeprefix("--handover=")).parent


def test_the_folder_admits_its_owner_alone(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / HANDOVER_FILE).stat().st_mode & 0o777 == 0o600


@needs_another_user
def test_another_user_neither_connects_nor_reads(folder: Path) -> None:
    knock = socket.socket(socket.AF_UNIX)
    with knock:
        assert as_stranger(lambda: knock.connect(str(folder / "worker.sock"))) == "PermissionError"
    for name in (HANDOVER_FILE, LOG_FILE):
        assert as_stranger((folder / name).read_bytes) == "PermissionError"
    assert as_stranger(lambda: os.listdir(folder)) == "PermissionError"


def test_one_rank_listens_to_this_machine_alone_and_a_knock_changes_nothing(
    trainer: DeepSpeedTrainer, worker: psutil.Process, jobs: Any, make_groups: Any
) -> None:
    """The collectives of a rank that is alone have ports all the same, once it has joined."""
    wanted = trainer.update(jobs.first(make_groups(6)))
    listening = [found.laddr for found in worker.net_connections("inet") if found.status == psutil.CONN_LISTEN]
    assert {address.ip for address in listening} <= {"127.0.0.1"}
    for address in listening:
        with socket.create_connection(address) as knock:
            knock.sendall(bytes(256))
    assert trainer.update(jobs.first(make_groups(6))) == wanted
