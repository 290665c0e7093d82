"""Starting a worker: a private folder with the handover file, and a command for each host."""

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
from components.training.hosts import Host, host_commands
from components.training.stale_folders import FOLDER_PREFIX, remove_abandoned_folders
from components.training.worker_handle import Processes
from components.training.worker_protocol import LOG_FILE, RENDEZVOUS_FILE, Handover, write_handover

_LAUNCHER = """
import gc, runpy, sys
gc.disable()
sys.modules["mlflow"] = None
runpy.run_module("deepspeed.launcher.launch", run_name="__main__")
"""
"""DeepSpeed's launcher without garbage collection and without mlflow, which its autotuner would import for seconds."""
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
    """Start the ranks of all `hosts`; returns at once. Their environment is `inherited` and what `training` needs."""
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
        rendezvous=(folder / RENDEZVOUS_FILE).as_uri() if len(hosts) == 1 else None,
        own_code_folder=own_code_folder,
    )
    own_wish = {name: inherited[name] for name in WAITING if name in inherited}
    environment = {**WAITING, **own_wish, **_environment(training, run_label, several_hosts=len(hosts) > 1)}
    commands = _commands(hosts, environment, write_handover(folder, handover))
    with (folder / LOG_FILE).open("ab") as log:
        launchers = [
            subprocess.Popen(
                command,
                cwd=_SOURCE_ROOT,
                env=dict(inherited),
                # When this process ends, the pipe closes, and with it the ssh connection and the ranks behind it.
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
    """The command for each host: DeepSpeed's single-host launcher. (The `deepspeed` runner would end every launcher on all
    hosts.) A single rank is started directly, because importing the launcher takes seconds."""
    prefix = ["/usr/bin/env", *(f"{name}={value}" for name, value in environment.items())]
    if [host.num_slots for host in hosts] == [1]:
        ranks = ("RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=1")
        return [[*prefix, *ranks, sys.executable, "-u", "-m", "components.training", f"--handover={handover}"]]
    rendezvous = [f"--master_addr={hosts[0].name}", f"--master_port={_free_port()}"] if len(hosts) > 1 else []
    arguments = [*rendezvous, "--module", "components.training", f"--handover={handover}"]
    launcher = [*prefix, sys.executable, "-c", _LAUNCHER]
    return host_commands(hosts, launcher=launcher, arguments=arguments, folder=_SOURCE_ROOT)


def _environment(training: TrainingConfig, run_label: str, *, several_hosts: bool) -> dict[str, str]:
    """The variables that the processes need besides those they inherit."""
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
