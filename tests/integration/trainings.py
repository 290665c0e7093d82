"""Training processes that a test starts, stops, kills and looks at."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests import processes
from tests.forked_workers import workers_of as forked_workers_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """How a training ended: its exit code (-9 when killed) and whether it stopped itself before."""

    code: int
    stopped: bool


class Trainings:
    """Runs one training at a time in a forked process."""

    def __init__(self, env: dict[str, str], log: Path, *, workers: Path) -> None:
        """`workers` is the socket of `tests.forked_workers`."""
        self._log = log
        self._output = [log.with_name(name) for name in ("stdout", "stderr")]
        self._log_file = log.open("w")
        self._running: int | None = None
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.zygote", str(workers)],
            cwd=ROOT, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log_file,
        )  # fmt: skip
        assert "ready" in self._read_line(), self.log()

    def __enter__(self) -> "Trainings":
        return self

    def __exit__(self, *_: object) -> None:
        for process in tree(self._zygote.pid):
            process.kill()
        self._zygote.wait()
        for stream in (self._zygote.stdin, self._zygote.stdout, self._log_file):
            assert stream is not None
            stream.close()

    def log(self) -> str:
        """The end of what the trainings wrote."""
        return self._log.read_text()[-6000:]

    def start(self, order: dict[str, Any]) -> int:
        """Start a training; its pid. One that a failed test left behind is killed first."""
        if self._running is not None:
            kill(tree(self._running))
            self.wait(self._running)
        assert self._zygote.stdin is not None
        self._zygote.stdin.write(json.dumps(order) + "\n")
        self._zygote.stdin.flush()
        self._running = int(self._read_line()["pid"])
        return self._running

    def run(self, order: dict[str, Any]) -> Ended:
        """Train to the end, or until the training stops itself and its whole process tree is killed."""
        pid = self.start(order)
        return self.wait(pid)

    def command(self, folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """What `troupe ARGUMENTS`, or a Python program, says and how it ends, in a folder and this environment."""
        return self.await_command(self.start_command(folder, *arguments, **environment))

    def start_command(self, folder: Path, *arguments: str, **environment: str) -> int:
        """Start it; its pid."""
        said = {"output": [str(file) for file in self._output], "environment": environment}
        return self.start({"command": arguments, "folder": str(folder), **said})

    def await_command(self, pid: int) -> "subprocess.CompletedProcess[str]":
        """What a command has said, once it has ended."""
        code = self.wait(pid).code
        return subprocess.CompletedProcess([], code, *(file.read_text() for file in self._output))

    def wait(self, pid: int) -> Ended:
        """Wait for a training; one that stops itself is killed with its whole tree."""
        stopped = False
        while "code" not in (told := self._read_line()):
            stopped = True
            kill(tree(pid))
        self._running = None
        return Ended(code=int(told["code"]), stopped=stopped)

    def await_stop(self, pid: int) -> None:
        """Return when the training has stopped itself; it stays stopped."""
        told = self._read_line()
        assert told.get("stopped") == pid, f"{told}: {self.log()}"

    def _read_line(self) -> dict[str, Any]:
        assert self._zygote.stdout is not None
        line = self._zygote.stdout.readline()
        assert line, f"the training server ended: {self.log()}"
        return dict(json.loads(line))


def tree(pid: int) -> list[psutil.Process]:
    """A training and all that it started: its workers are forked elsewhere, and no children of it."""
    return [*processes.tree(pid), *forked_workers_of(pid)]


def kill(victims: list[psutil.Process]) -> None:
    """SIGKILL, to all of them."""
    for process in victims:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def workers_of(run_id: str) -> list[psutil.Process]:
    """The living training workers that carry a run's label."""
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get("TROUPE_RUN", "").startswith(f"{run_id}.")
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def await_no_workers(run_id: str, timeout_seconds: float = 30.0) -> None:
    """Return once no worker of a run is left; they end by themselves when their owner dies."""
    deadline = time.monotonic() + timeout_seconds
    while left := workers_of(run_id):
        assert time.monotonic() < deadline, f"orphans of {run_id}: {left}"
        time.sleep(0.1)
