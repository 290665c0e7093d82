"""The processes of a worker as seen by its trainer: asked over a socket, and ended completely."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
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
    """The processes of all ranks, each in a session of its own, and the folder that they share with the trainer."""

    ranks: Sequence[subprocess.Popen[bytes]]
    folder: Path
    key: bytes
    connection: Connection | None = None

    @property
    def alive(self) -> bool:
        """Whether all ranks are running."""
        return all(rank.poll() is None for rank in self.ranks)

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
                elif not self.alive:
                    raise self._death()  # of a rank that rank 0 may wait for
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
        _end_groups(self.ranks)
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
        _wait_for_groups(self.ranks)
        if causes := [failure for failure in read_failures(self.folder) if failure.kind != "lost_rank"]:
            return error_of(causes[0])
        codes = {number: code for number, rank in enumerate(self.ranks) if (code := rank.poll()) is not None}
        ends = ", ".join(f"rank {number}: exit code {code}" for number, code in codes.items())
        return WorkerDied(f"the training worker ended ({ends})\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return (self.folder / LOG_FILE).read_text(errors="replace", encoding="utf-8")[-_LOG_TAIL_CHARACTERS:]


def _end_groups(leaders: Sequence[subprocess.Popen[bytes]]) -> None:
    """Send SIGTERM to the groups of `leaders`, and SIGKILL to what remains."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        for leader in leaders:
            with suppress(ProcessLookupError):
                os.killpg(leader.pid, signal_number)
        _wait_for_groups(leaders)


def _wait_for_groups(leaders: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait until all are gone, for a few seconds in all."""
    deadline = time.monotonic() + _END_SECONDS
    for leader in leaders:
        while time.monotonic() < deadline:
            leader.poll()
            try:
                os.killpg(leader.pid, 0)
            except ProcessLookupError:
                break
            time.sleep(_POLL_SECONDS)
