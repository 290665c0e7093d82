"""What starts a worker: a private folder with the handover, and a command for each host."""

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
from components.processes import this_process
from components.training.abandoned import FOLDER_PREFIX, remove_abandoned_folders
from components.training.handover import LOG_FILE, RENDEZVOUS_FILE, Handover, write_handover
from components.training.hosts import Host, host_commands
from components.training.processes import Processes

_LAUNCHER = """
import gc, runpy, sys
gc.disable()
sys.modules["mlflow"] = None
runpy.run_module("deepspeed.launcher.launch", run_name="__main__")
"""
"""DeepSpeed's launcher, which imports and then waits: kept from importing mlflow, as its autotuner would for seconds and for
nothing, and from looking for garbage."""
_SOURCE_ROOT = Path(__file__).resolve().parents[2]


def launch(
    training: TrainingConfig,
    deepspeed: Mapping[str, Any],
    hosts: Sequence[Host],
    *,
    run_label: str,
    inherited: Mapping[str, str],
    own_code_folder: Path | None,
) -> Processes:
    """Start the ranks of all `hosts`; returns at once, while they are still importing. They get `inherited` and what
    `training` asks for as their environment."""
    remove_abandoned_folders()
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    key = secrets.token_hex(32)
    handover = Handover(
        key=SecretStr(key),
        owner_host=socket.gethostname(),
        owner=str(this_process()),
        training=training,
        deepspeed=deepspeed,
        # A port that is free now may be somebody's by the time that rank 0 listens.
        rendezvous=(folder / RENDEZVOUS_FILE).as_uri() if len(hosts) == 1 else None,
        own_code_folder=own_code_folder,
    )
    environment = _environment(training, run_label, several_hosts=len(hosts) > 1)
    commands = _commands(hosts, environment, write_handover(folder, handover))
    with (folder / LOG_FILE).open("ab") as log:
        launchers = [
            subprocess.Popen(
                command,
                cwd=_SOURCE_ROOT,
                env=dict(inherited),
                # Ranks elsewhere end with this process: whatever ends it closes the pipe, and with it their connection.
                stdin=subprocess.PIPE if number else subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for number, command in enumerate(commands)
        ]
    elsewhere = {host.name: launcher for host, launcher in zip(hosts[1:], launchers[1:], strict=True)}
    return Processes(launchers[0], elsewhere, folder, key.encode())


def _commands(hosts: Sequence[Host], environment: Mapping[str, str], handover: Path) -> list[list[str]]:
    """What to start for each host: DeepSpeed's launcher of one host, without the `deepspeed` runner above it, which would
    end every launcher on all hosts. One rank is the worker itself, told what the launcher would tell it: that takes seconds
    to import, to start one process."""
    if [host.num_slots for host in hosts] == [1]:
        told = {**environment, "RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1}
        python = ("/usr/bin/env", *(f"{name}={value}" for name, value in told.items()), sys.executable, "-u")
        return [[*python, "-m", "components.training", f"--handover={handover}"]]
    meeting = [f"--master_addr={hosts[0].name}", f"--master_port={_free_port()}"] if len(hosts) > 1 else []
    return host_commands(
        hosts,
        launcher=(sys.executable, "-c", _LAUNCHER),
        arguments=[*meeting, "--module", "components.training", f"--handover={handover}"],
        environment=environment,
        folder=_SOURCE_ROOT,
    )


def _environment(training: TrainingConfig, run_label: str, *, several_hosts: bool) -> dict[str, str]:
    """What the processes need on top of what they inherit."""
    values = {
        "TROUPE_RUN": run_label,
        "OMP_NUM_THREADS": str(training.num_threads),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if not several_hosts:
        values["GLOO_SOCKET_IFNAME"] = "lo"
    if training.device == "cpu":
        values["DS_ACCELERATOR"] = "cpu"
    else:
        values["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return values


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
