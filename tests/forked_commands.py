"""Commands that are forked from one process with their imports, so that a test of fifty command lines pays for these once.

`python -m tests.forked_commands` imports what commands import, and then forks a command for each line of standard input. What
a command does of its own is real: its arguments, its output, its exit code, the processes that it starts. The environment,
which libraries read when they are imported, is that of all commands of a server.
"""

import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMPORTED = ("troupe.cli", "flows.train", "flows.preflight.checks", "torch")


@dataclass(frozen=True)
class Ended:
    """How a command ended: `cpu_seconds` are its own and those of the processes that it waited for."""

    returncode: int
    stdout: str
    stderr: str
    cpu_seconds: float


class Commands:
    """Runs one command at a time."""

    def __init__(self, server: "subprocess.Popen[str]", folder: Path) -> None:
        self._server, self._files = server, (folder / "stdout", folder / "stderr")

    def run(self, *arguments: str) -> Ended:
        """`troupe ARGUMENTS`, with nothing on standard input."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps([arguments, [str(file) for file in self._files]]) + "\n")
        self._server.stdin.flush()
        code, cpu_seconds = json.loads(self._server.stdout.readline())
        stdout, stderr = (file.read_text() for file in self._files)
        return Ended(code, stdout, stderr, cpu_seconds)


@contextmanager
def serving(folder: Path, environment: Mapping[str, str]) -> Iterator[Commands]:
    """A server of commands in this environment, in the checkout's folder."""
    command = [sys.executable, "-m", "tests.forked_commands"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n", "the server of commands did not start"
        yield Commands(server, folder)


def _become(arguments: list[str], files: list[str]) -> None:
    """The life of the fork: the command, its output in two files."""
    inputs = os.open(os.devnull, os.O_RDONLY)
    outputs = [os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for file in files]
    for number, file in enumerate((inputs, *outputs)):
        os.dup2(file, number)
    sys.argv = ["-c", *arguments]
    code = 1
    try:
        importlib.import_module("troupe.cli").main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    print("ready", flush=True)
    for line in sys.stdin:
        arguments, files = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(arguments, files)
        _, status, used = os.wait4(pid, 0)
        print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]), flush=True)


if __name__ == "__main__":
    main()
