"""The processes of a worker as seen by its trainer: asked over a socket, and ended completely."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path

from components.errors import WorkerDied
from components.reporting.progress_share import report_share
from components.training.base import UpdateJob
from components.training.worker_protocol import (
    LOG_FILE,
    MAX_MESSAGE_BYTES,
    Answer,
    error_of,
    read_failures,
    socket_address,
)

_START_TIMEOUT_SECONDS = 900.0
"""Long: a worker that ended is noticed at once, so one that still lives is only slow, on a machine that is busy."""
_END_SECONDS = 5.0
_POLL_SECONDS = 0.05
_LOG_TAIL_CHARACTERS = 3000


@dataclass(slots=True)
class Processes:
    """The launcher on this host, the ssh connections to other hosts by name, and the folder shared with the trainer."""

    launcher: subprocess.Popen[bytes]
    elsewhere: Mapping[str, subprocess.Popen[bytes]]
    folder: Path
    key: bytes
    connection: Connection | None = None

    @property
    def alive(self) -> bool:
        """Whether the launchers of all hosts are running."""
        return all(launcher.poll() is None for launcher in (self.launcher, *self.elsewhere.values()))

    def ask(self, job: UpdateJob, deadline: float) -> Answer:
        """The result or failure of `job`. The listener of this thread hears the shares that are done before it."""
        connection = self._connect()
        try:
            connection.send_bytes(job.model_dump_json().encode())
            while True:
                if connection.poll(min(1.0, max(deadline - time.monotonic(), 0.0))):
                    answer = Answer.model_validate_json(connection.recv_bytes(MAX_MESSAGE_BYTES))
                    if answer.share is None:
                        return answer
                    report_share(answer.share)
                if time.monotonic() >= deadline:
                    raise WorkerDied(
                        f"update of {job.policy}, step {job.step} took longer than training.update_timeout_seconds"
                    )
        except (EOFError, ConnectionError) as error:
            raise self._death() from error

    def end(self) -> None:
        """End all processes and remove the folder."""
        if self.connection is not None:
            self.connection.close()
        for connection in self.elsewhere.values():
            assert connection.stdin is not None
            connection.stdin.close()
        for launcher in (self.launcher, *self.elsewhere.values()):
            _end_group(launcher)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _connect(self) -> Connection:
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while self.connection is None:
            try:
                with socket_address(self.folder) as address:
                    self.connection = Client(address, "AF_UNIX", authkey=self.key)
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
        """The error that ended the processes: the first cause, not its consequences on other ranks."""
        lost = [name for name, connection in self.elsewhere.items() if connection.poll() is not None]
        if not lost:
            _wait_for_group(self.launcher)
        if causes := [failure for failure in read_failures(self.folder) if failure.kind != "lost_rank"]:
            return error_of(causes[0])
        if lost:
            return WorkerDied(f"the ranks on {', '.join(lost)} ended, or could not be started\n{self._log_tail()}")
        return WorkerDied(f"the training worker ended (exit code {self.launcher.poll()})\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return (self.folder / LOG_FILE).read_text(errors="replace", encoding="utf-8")[-_LOG_TAIL_CHARACTERS:]


def _end_group(launcher: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the group of `launcher`, and SIGKILL to what remains."""
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
