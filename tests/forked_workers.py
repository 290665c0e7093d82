"""Training workers that are forked from one process with their imports, so that a test pays for these once.

`python -m tests.forked_workers SOCKET` imports what a worker imports, in the same way, and then forks a worker for each
connection. Nothing is computed before the fork: each worker is a fresh process in all but its imports, in a session of its own,
with the environment and the log that the trainer gives it.
"""

import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from components.machine.gc_tuning import gc_paused

ROOT = Path(__file__).resolve().parents[1]
OWNER = "TROUPE_TEST_OWNER"
"""Names the process whose trainer asked for the worker: that one is not its parent."""
_ROOM = "TROUPE_TEST_ROOM"
_ROOM_BYTES = 16384
_WORKER = ["-u", "-m", "components.training"]
_READ_AT_IMPORT = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "TOKENIZERS_PARALLELISM": "false"}
"""What libraries read when they are imported: a worker that is given something else is started for real."""


class Popen:
    """A worker that was forked elsewhere, with what the trainer uses of `subprocess.Popen`."""

    stdin = None

    def __init__(self, socket_file: Path, order: Mapping[str, Any]) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(str(socket_file))
        self._connection.sendall(json.dumps(order).encode() + b"\n")
        self._lock = threading.Lock()
        self._code: int | None = None
        with self._connection.makefile("r") as told:
            self.pid = int(told.readline())
        self._connection.setblocking(False)

    def poll(self) -> int | None:
        """The exit code once it has ended."""
        with self._lock, suppress(BlockingIOError):
            if self._code is None:
                self._code = int(self._connection.recv(64))
        return self._code

    def __del__(self) -> None:
        self._connection.close()


@contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """A process that forks workers; its socket."""
    socket_file, log_file = folder / "socket", folder / "log"
    environment = {**os.environ, **_READ_AT_IMPORT, _ROOM: "x" * _ROOM_BYTES}
    with log_file.open("w") as log:
        worker_main = subprocess.Popen(
            [sys.executable, "-u", "-m", "tests.forked_workers", str(socket_file)],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert worker_main.stdin is not None
    assert worker_main.stdout is not None
    try:
        assert worker_main.stdout.readline() == b"ready\n", log_file.read_text()
        yield socket_file
    finally:
        worker_main.stdin.close()
        worker_main.wait(30)
        worker_main.stdout.close()


def forking(socket_file: Path) -> SimpleNamespace:
    """What to put in the place of `launcher.subprocess`: it forks workers, and starts all else for real."""

    def start(command: Sequence[str], **how: Any) -> Any:
        settings = dict(word.split("=", 1) for word in command if "=" in word and not word.startswith("--"))
        python = command.index(sys.executable) if sys.executable in command else len(command)
        imports = {name: settings.get(name) for name in _READ_AT_IMPORT}
        arguments = [*command[python + 1 :]]
        if arguments[:-1] != _WORKER or imports != _READ_AT_IMPORT or how["stdin"] != subprocess.DEVNULL:
            return subprocess.Popen(command, **how)
        assert command[0] == "/usr/bin/env"
        assert how["start_new_session"]
        return Popen(
            socket_file,
            {
                "environment": {**how["env"], **settings, OWNER: str(os.getpid())},
                "arguments": arguments[-1:],
                "folder": str(how["cwd"]),
                "log": str(how["stdout"].name),
            },
        )

    names = {name: getattr(subprocess, name) for name in ("PIPE", "DEVNULL", "STDOUT")}
    return SimpleNamespace(Popen=start, **names)


def workers_of(pid: int) -> list[psutil.Process]:
    """The living workers that were forked for a process."""
    found = []
    for worker_main in psutil.process_iter():
        with suppress(psutil.Error):
            if worker_main.environ().get(OWNER) == str(pid) and worker_main.status() != psutil.STATUS_ZOMBIE:
                found.append(worker_main)
    return found


class _Server:
    """Forks a worker for each connection, and tells its exit code there."""

    def __init__(self, socket_file: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(socket_file)
        self._listener.listen(16)
        self._connections: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._ended, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._woken)
        for file in (self._listener.fileno(), self._ended, 0):
            self._selector.register(file, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until standard input ends."""
        while True:
            ready = {key.fd for key, _ in self._selector.select()}
            if 0 in ready:
                return
            if self._ended in ready:
                os.read(self._ended, 64)
                self._tell_codes()
            if self._listener.fileno() in ready:
                connection, _ = self._listener.accept()
                with connection.makefile("r") as told:
                    order = json.loads(told.readline())
                pid = os.fork()
                if pid == 0:
                    self._become_worker(order, connection)
                self._connections[pid] = connection

    def _tell_codes(self) -> None:
        while self._connections:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            with self._connections.pop(ended.si_pid) as connection, suppress(OSError):  # whoever asked may be gone
                connection.sendall(str(code).encode())
            os.waitpid(ended.si_pid, 0)  # once its code is told, and not before, it is gone

    def _become_worker(self, order: Mapping[str, Any], connection: socket.socket) -> None:
        """The life of the fork, which tells its pid once it has a session of its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for opened in (self._listener, *self._connections.values()):
            opened.close()
        os.setsid()
        os.chdir(order["folder"])
        _redirect(order["log"])
        _show_environment(order["environment"])
        with connection:
            connection.sendall(f"{os.getpid()}\n".encode())
        _run(order["arguments"], order["environment"])


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Be a worker with these arguments in this environment, and exit as it would."""
    from components.training import worker_main

    code = 1
    try:
        _show_environment(environment)
        sys.argv[1:] = arguments
        worker_main.main()
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: str) -> None:
    """Standard input from nowhere, output and errors to the log."""
    files = (os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND))
    for file, number in ((files[0], 0), (files[1], 1), (files[1], 2)):
        os.dup2(file, number)


def _show_environment(environment: Mapping[str, str]) -> None:
    """Take another environment, and show it in /proc: written over the one that this program was started with."""
    os.environ.clear()
    os.environ.update(environment)
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    content = b"".join(f"{name}={value}\0".encode() for name, value in environment.items())
    assert len(content) <= end - start, "no room for the environment"
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, content, len(content))


def main() -> None:
    with gc_paused():
        from components.training import deepspeed_backend, worker_main

        assert worker_main
        deepspeed_backend.import_models()
    server = _Server(sys.argv[1])
    print("ready", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
