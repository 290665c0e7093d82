"""The trainer: owns the worker processes of one training configuration, hands them jobs, and ends them without remainder."""

import atexit
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from components.config import TrainingConfig
from components.errors import WorkerDied
from components.training.abandoned import FOLDER_PREFIX, remove_abandoned_folders
from components.training.base import UpdateJob, UpdateResult
from components.training.deepspeed_config import engine_config, read_deepspeed_config
from components.training.handover import (
    LOG_FILE,
    MAX_MESSAGE_BYTES,
    RENDEZVOUS_FILE,
    SOCKET_FILE,
    Answer,
    Handover,
    error_of,
    read_failures,
    write_handover,
)
from components.training.hosts import Host, host_commands, hosts_of
from components.training.ownership import this_process

_START_TIMEOUT_SECONDS = 180.0
_END_SECONDS = 5.0
_POLL_SECONDS = 0.05
_LOG_TAIL_CHARACTERS = 3000
_LAUNCHER = """
import gc, runpy, sys
gc.disable()
sys.modules["mlflow"] = None
runpy.run_module("deepspeed.launcher.launch", run_name="__main__")
"""
"""DeepSpeed's launcher, which imports and then waits: kept from importing mlflow, as its autotuner would for seconds and for
nothing, and from looking for garbage."""
_SOURCE_ROOT = Path(__file__).resolve().parents[2]


class DeepSpeedTrainer:
    """A `Trainer` over processes in a session of their own; several ranks are started by DeepSpeed's own launcher.

    Jobs may differ in learning rate and minibatches alone. The processes start with the first update, or before it with
    `start`, and stay for the next ones. On this host they get `environment` and nothing else of this process's; `run_label`
    is in theirs as TROUPE_RUN, by which the processes of a run are found. Raises ConfigurationError when the DeepSpeed
    configuration (values, or the JSON file that holds them) is not for `training`, or its hostfile cannot be used.

    `own_code_folder` is where modules of a loss of the user's own may lie. Several hosts find under the same paths: it, this
    source tree and its Python, the folder for temporary files (TMPDIR), where the handover file lies, and the folders that jobs
    name. This host reaches the others by ssh, without a password.
    """

    def __init__(
        self,
        training: TrainingConfig,
        *,
        deepspeed_config: Mapping[str, Any] | Path,
        run_label: str,
        environment: Mapping[str, str],
        own_code_folder: Path | None = None,
    ) -> None:
        self._training = training
        self._deepspeed = read_deepspeed_config(deepspeed_config)
        engine_config(self._deepspeed, training)
        self._hosts = hosts_of(training)
        self._run_label = run_label
        self._environment = dict(environment)
        self._own_code_folder = own_code_folder
        self._processes: _Processes | None = None
        self._one_at_a_time = threading.Lock()
        atexit.register(self.close)

    def start(self) -> None:
        """Start the processes unless they run; returns at once, while they are still importing."""
        if self._processes is not None and self._processes.alive:
            return
        self.close()
        self._processes = _launch(
            self._training,
            self._deepspeed,
            self._run_label,
            self._hosts,
            self._environment,
            own_code_folder=self._own_code_folder,
        )

    def update(self, job: UpdateJob) -> UpdateResult:
        """Run one update and wait for it.

        Raises WorkerDied when the processes end or take longer than `training.update_timeout_seconds`, and the error that
        the worker reported by its name, UpdateFailed for one without a name. After such an error the next call starts new
        processes where it must. Calls from several threads take turns.
        """
        assert launch_settings(job.training) == launch_settings(self._training), (
            "another configuration than the worker's"
        )
        assert not job.output_folder.exists(), f"{job.output_folder} exists"
        with self._one_at_a_time:
            answer = self._answer(job)
        if answer.failure is not None:
            raise error_of(answer.failure)
        assert answer.result is not None
        return answer.result

    def close(self) -> None:
        """End the worker and every process it started; the next update starts new ones."""
        if self._processes is not None:
            self._processes.end()
            self._processes = None

    def _answer(self, job: UpdateJob) -> Answer:
        self.start()
        assert self._processes is not None
        deadline = time.monotonic() + self._training.update_timeout_seconds
        try:
            return self._processes.ask(job, deadline)
        except BaseException:
            # Also on interruption: a worker in the middle of a step must not live on.
            self.close()
            raise


@dataclass(slots=True)
class _Processes:
    """The launcher here with its group, the connections to other hosts' by name, and the folder they share with the trainer."""

    launcher: subprocess.Popen[bytes]
    elsewhere: Mapping[str, subprocess.Popen[bytes]]
    folder: Path
    key: bytes
    connection: Connection | None = None

    @property
    def alive(self) -> bool:
        """Whether the launchers of all hosts run."""
        return all(launcher.poll() is None for launcher in (self.launcher, *self.elsewhere.values()))

    def ask(self, job: UpdateJob, deadline: float) -> Answer:
        connection = self._connected()
        try:
            connection.send_bytes(job.model_dump_json().encode())
            while not connection.poll(min(1.0, max(deadline - time.monotonic(), 0.0))):
                if time.monotonic() >= deadline:
                    raise WorkerDied(
                        f"update of {job.policy}, step {job.step} took longer than training.update_timeout_seconds"
                    )
            return Answer.model_validate_json(connection.recv_bytes(MAX_MESSAGE_BYTES))
        except (EOFError, ConnectionError) as error:
            raise self._death() from error

    def end(self) -> None:
        """SIGTERM to the group, SIGKILL to what is left of it, and remove the folder."""
        if self.connection is not None:
            self.connection.close()
        for connection in self.elsewhere.values():
            assert connection.stdin is not None
            connection.stdin.close()
        for launcher in (self.launcher, *self.elsewhere.values()):
            _end_group(launcher)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _connected(self) -> Connection:
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while self.connection is None:
            try:
                self.connection = Client(str(self.folder / SOCKET_FILE), "AF_UNIX", authkey=self.key)
            except (FileNotFoundError, ConnectionRefusedError, EOFError):
                if not self.alive:
                    raise self._death() from None
                if time.monotonic() >= deadline:
                    raise WorkerDied(
                        f"the worker did not start in {_START_TIMEOUT_SECONDS:.0f} s\n{self._log_tail()}"
                    ) from None
                time.sleep(_POLL_SECONDS)
        return self.connection

    def _death(self) -> Exception:
        """The error that ended the processes: a rank's own report before the consequences on other ranks."""
        lost = [name for name, connection in self.elsewhere.items() if connection.poll() is not None]
        if not lost:
            _wait_for_group(self.launcher)
        failures = read_failures(self.folder)
        causes = [failure for failure in failures if failure.kind != "lost_rank"]
        if causes:
            return error_of(causes[0])
        if lost:
            return WorkerDied(f"the ranks on {', '.join(lost)} ended, or could not be started\n{self._log_tail()}")
        return WorkerDied(f"the training worker ended (exit code {self.launcher.poll()})\n{self._log_tail()}")

    def _log_tail(self) -> str:
        text = (self.folder / LOG_FILE).read_text(errors="replace")
        return text[-_LOG_TAIL_CHARACTERS:]


def _end_group(launcher: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the group of `launcher`, SIGKILL to what is left of it."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(launcher.pid, signal_number)
        except ProcessLookupError:
            return
        _wait_for_group(launcher)


def _wait_for_group(launcher: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        launcher.poll()
        try:
            os.killpg(launcher.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(_POLL_SECONDS)


def launch_settings(training: TrainingConfig) -> dict[str, Any]:
    """What a worker's processes are started with; the rest comes with each job, as policies may differ in it."""
    return training.model_dump(exclude={"learning_rate", "num_minibatches"})


def _launch(
    training: TrainingConfig,
    deepspeed: Mapping[str, Any],
    run_label: str,
    hosts: Sequence[Host],
    inherited: Mapping[str, str],
    *,
    own_code_folder: Path | None,
) -> _Processes:
    remove_abandoned_folders()
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    key = secrets.token_hex(32)
    # A port that is free now may be somebody's by the time that rank 0 listens.
    rendezvous = (folder / RENDEZVOUS_FILE).as_uri() if len(hosts) == 1 else None
    handover = write_handover(folder, _handover(training, deepspeed, key, rendezvous, own_code_folder))
    environment = _environment(training, run_label, several_hosts=len(hosts) > 1)
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
            for number, command in enumerate(_commands(hosts, environment, handover))
        ]
    elsewhere = {host.name: launcher for host, launcher in zip(hosts[1:], launchers[1:], strict=True)}
    return _Processes(launchers[0], elsewhere, folder, key.encode())


def _handover(
    training: TrainingConfig,
    deepspeed: Mapping[str, Any],
    key: str,
    rendezvous: str | None,
    own_code_folder: Path | None,
) -> Handover:
    owner = this_process()
    return Handover(
        key=SecretStr(key),
        owner_host=socket.gethostname(),
        owner_pid=owner.pid,
        owner_started_at=owner.started_at,
        training=training,
        deepspeed=deepspeed,
        rendezvous=rendezvous,
        own_code_folder=own_code_folder,
    )


def _commands(hosts: Sequence[Host], environment: Mapping[str, str], handover: Path) -> list[list[str]]:
    """What to start for each host."""
    if [host.num_slots for host in hosts] == [1]:
        return [_command_of_one_rank(environment, handover)]
    return host_commands(
        hosts,
        launcher=(sys.executable, "-c", _LAUNCHER),
        arguments=_arguments(hosts, handover),
        environment=environment,
        folder=_SOURCE_ROOT,
    )


def _command_of_one_rank(environment: Mapping[str, str], handover: Path) -> list[str]:
    """The worker itself, told what DeepSpeed's launcher would tell it: that takes seconds to import, to start one process."""
    told = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1}
    settings = (f"{name}={value}" for name, value in {**environment, **told}.items())
    return [
        *("/usr/bin/env", *settings, sys.executable, "-u", "-m", "components.training"),
        f"--handover={handover}",
    ]


def _arguments(hosts: Sequence[Host], handover: Path) -> list[str]:
    """DeepSpeed's launcher of one host takes these; the `deepspeed` runner above it ends every launcher on all hosts."""
    meeting = [f"--master_addr={hosts[0].name}", f"--master_port={_free_port()}"] if len(hosts) > 1 else []
    return [*meeting, "--module", "components.training", f"--handover={handover}"]


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
