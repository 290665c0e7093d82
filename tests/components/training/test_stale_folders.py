"""The handover file holds a key: it goes with its trainer, or when the next one starts."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from components.config import TrainingConfig
from components.machine.process_ids import this_process
from components.training.stale_folders import remove_abandoned_folders
from components.training.trainer import DeepSpeedTrainer
from components.training.worker_protocol import HANDOVER_FILE

MAKE_AND_WAIT = """
import sys, time
from pathlib import Path
from pydantic import SecretStr
from components.config import TrainingConfig
from components.training.worker_protocol import Handover, write_handover
from components.machine.process_ids import this_process
import socket
write_handover(Path(sys.argv[1]), Handover(
    key=SecretStr("hidden"), owner_host=socket.gethostname(), owner=str(this_process()),
    training=TrainingConfig(), deepspeed={}, rendezvous="file:///nowhere",
))
print("written", flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_killed_owners_folder_goes_with_the_next_start(
    temporary: Path, make_trainer: Callable[[TrainingConfig], DeepSpeedTrainer]
) -> None:
    folder = temporary / "troupe-training-killed"
    folder.mkdir()
    owner = subprocess.Popen([sys.executable, "-c", MAKE_AND_WAIT, str(folder)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "written\n"
    remove_abandoned_folders()
    assert (folder / HANDOVER_FILE).exists(), "its owner lives"
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    trainer = make_trainer(TrainingConfig())
    trainer.start()
    trainer.close()
    assert list(temporary.glob("troupe-training-*")) == []


def test_other_hosts_half_made_and_foreign_folders_stay(temporary: Path) -> None:
    away = temporary / "troupe-training-away"
    away.mkdir()
    gone = this_process()._replace(started=1)
    values = {"key": "k", "owner_host": "another-host", "owner": str(gone)}
    (away / HANDOVER_FILE).write_text(json.dumps({**values, "training": {}, "deepspeed": {}}))
    half_made, old, linked_to = (temporary / f"troupe-training-{name}" for name in ("half", "old", "link"))
    half_made.mkdir()
    old.mkdir()
    an_hour_ago = time.time() - 3600
    os.utime(old, (an_hour_ago, an_hour_ago))
    target = temporary / "somebody's"
    target.mkdir()
    linked_to.symlink_to(target)
    os.utime(target, (an_hour_ago, an_hour_ago))
    remove_abandoned_folders()
    assert away.exists()
    assert half_made.exists()
    assert not old.exists()
    assert target.exists()
