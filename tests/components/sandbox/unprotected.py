"""Sandboxes without any protection, to see that the judges of attacks notice. For harmless attacks only."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from components.sandbox.base import SandboxDescription
from components.schema import ExecutionResult, Limits

DESCRIPTION = SandboxDescription(backend="bubblewrap", image_digest="none", num_boxes=1, box_limits={})

ONE_INTERPRETER = """
import json, sys
import contextlib, io
channel = open(0, closefd=False)
for line in channel:
    output, code = io.StringIO(), 0
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(json.JSONDecoder().decode(line), "program", "exec"), {"__name__": "__main__"})
    except BaseException as error:
        output.write(repr(error))
        code = 1
    sys.stdout.write(json.dumps([code, output.getvalue()]) + "\\n")
    sys.stdout.flush()
"""


class UnprotectedSandbox:
    """A plain subprocess with this process's rights, in one folder for all programs."""

    description = DESCRIPTION

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(
        self,
        program: str,
        *,
        stdin: str = "",
        files: Mapping[str, str] | None = None,
        outputs: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> ExecutionResult:
        for name, text in (files or {}).items():
            (self._folder / name).write_text(text)
        started = time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        out, _ = child.communicate(stdin.encode(), timeout=20)
        _kill_group(child.pid)
        found = [
            name for name in outputs if (self._folder / name).is_file() and os.access(self._folder / name, os.R_OK)
        ]
        return ExecutionResult(
            status="ok" if child.returncode == 0 else "nonzero_exit",
            stdout=out.decode(errors="surrogateescape"),
            stderr="",
            exit_code=child.returncode,
            wall_seconds=time.monotonic() - started,
            cpu_seconds=0.0,
            files={name: (self._folder / name).read_bytes().decode(errors="surrogateescape") for name in found},
        )

    def close(self) -> None:
        pass


class OneInterpreterSandbox:
    """All programs in one interpreter, as a careless fork server would leave it behind."""

    description = DESCRIPTION

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child = subprocess.Popen(
            [sys.executable, "-c", ONE_INTERPRETER],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        program: str,
        *,
        stdin: str = "",
        files: Mapping[str, str] | None = None,
        outputs: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> ExecutionResult:
        for name, text in (files or {}).items():
            (self._folder / name).write_text(text)
        with_input = f"import io, sys\nsys.stdin = io.StringIO({stdin!r})\n{program}"
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(with_input) + "\n")
        self._child.stdin.flush()
        code, output = json.loads(self._child.stdout.readline())
        return ExecutionResult(
            status="nonzero_exit" if code else "ok",
            stdout=output,
            stderr="",
            exit_code=code,
            wall_seconds=0.0,
            cpu_seconds=0.0,
        )

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
