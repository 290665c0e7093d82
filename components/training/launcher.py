"""Starting a worker: a private folder with the handover file, and a process for each rank with one device."""

import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from components.config import TrainingConfig
from components.machine.child_environment import WAITING
from components.machine.process_ids import this_process
from components.training.stale_folders import FOLDER_PREFIX, remove_abandoned_folders
from components.training.worker_handle import Processes
from components.training.worker_protocol import LOG_FILE, RENDEZVOUS_FILE, Handover, write_handover

_SOURCE_ROOT = Path(__file__).resolve().parents[2]


def launch(
    training: TrainingConfig,
    deepspeed: Mapping[str, Any],
    *,
    run_label: str,
    inherited: Mapping[str, str],
    devices: Sequence[str] = (),
    own_code_folder: Path | None,
) -> Processes:
    """Start all ranks; returns at once. Their environment is `inherited` and what `training` needs.

    `devices` are names in CUDA_VISIBLE_DEVICES, one a rank; without them each rank takes the device of its number.
    """
    remove_abandoned_folders()
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    key = secrets.token_hex(32)
    handover = Handover(
        key=SecretStr(key),
        owner_host=socket.gethostname(),
        owner=str(this_process()),
        training=training,
        deepspeed=deepspeed,
        # A file, because a free port may be taken by the time that rank 0 listens.
        rendezvous=(folder / RENDEZVOUS_FILE).as_uri(),
        own_code_folder=own_code_folder,
    )
    own_wish = {name: inherited[name] for name in WAITING if name in inherited}
    common = {**WAITING, **own_wish, **_environment(training, run_label), "WORLD_SIZE": str(training.num_ranks)}
    worker = [sys.executable, "-u", "-m", "components.training", f"--handover={write_handover(folder, handover)}"]
    with (folder / LOG_FILE).open("ab") as log:
        ranks = [
            subprocess.Popen(
                ["/usr/bin/env", *(f"{name}={value}" for name, value in {**common, **place}.items()), *worker],
                cwd=_SOURCE_ROOT,
                env=dict(inherited),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for place in place_ranks(training.num_ranks, devices)
        ]
    return Processes(ranks, folder, key.encode())


def place_ranks(num_ranks: int, devices: Sequence[str]) -> list[dict[str, str]]:
    """The variables in which ranks differ.

    **Example** 2 ranks on devices ("4", "5"): RANK 0 sees "4" alone and calls it 0, RANK 1 sees "5" alone and calls it 0.
    """
    if not devices:
        return [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(num_ranks)]
    assert len(devices) == num_ranks, f"{num_ranks} ranks on devices {devices}"
    return [
        {"RANK": str(rank), "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": device} for rank, device in enumerate(devices)
    ]


def _environment(training: TrainingConfig, run_label: str) -> dict[str, str]:
    """The variables that the processes need besides those they inherit."""
    values = {
        "TROUPE_RUN": run_label,
        "OMP_NUM_THREADS": str(training.num_threads),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    if training.device == "cpu":
        values["DS_ACCELERATOR"] = "cpu"
    else:
        values["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return values
