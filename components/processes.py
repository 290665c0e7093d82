"""Which process: its kernel, its number and its start, because numbers are used again and clocks are set."""

import logging
import os
import platform
import re
import socket
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

_NUMBER = re.compile(r"[0-9]{1,20}")
"""Labels are anybody's text, and not all that `str.isdigit` calls a digit can be read as a number."""
_START_TICKS = 19
_STATE = 0
_log = logging.getLogger(__name__)


class ProcessId(NamedTuple):
    """One process, never to be taken for another. `str(process)` is safe in labels, file names and cgroup names, and
    `ProcessId.parse` reads it."""

    kernel: str
    """As `this_kernel` names it."""
    pid: int
    started: int
    """In clock ticks since the machine's start, which setting the clock does not move. Only Linux tells that: elsewhere it is
    the start that the system has stored with the process, in microseconds since the epoch."""

    def __str__(self) -> str:
        return f"{self.kernel}-{self.pid}-{self.started}"

    @classmethod
    def parse(cls, text: str) -> "ProcessId | None":
        """The process that `text` names; None when it names none."""
        kernel, _, rest = text.partition("-")
        pid, _, started = rest.partition("-")
        if not kernel or not _NUMBER.fullmatch(pid) or not _NUMBER.fullmatch(started):
            return None
        return cls(kernel, int(pid), int(started))

    def is_gone(self) -> bool:
        """Whether that very process of this machine has ended, a zombie included. One that cannot be seen from here, because
        it is in another namespace or hidden, is not gone."""
        if self.kernel != this_kernel():
            return self.kernel.partition(".")[0] != this_kernel().partition(".")[0]
        found = _start_and_state(self.pid)
        if found is None:
            return not _is_hidden(self.pid)
        started, is_zombie = found
        return is_zombie or started != self.started


def this_process() -> ProcessId:
    """The calling process."""
    return process_of(os.getpid())


def process_of(pid: int) -> ProcessId:
    """The process that has `pid` now, or is its zombie. Raises ProcessLookupError when there is none."""
    found = _start_and_state(pid)
    if found is None:
        raise ProcessLookupError(f"no process {pid}")
    return ProcessId(this_kernel(), pid, found[0])


def left_running(child: subprocess.Popen[bytes]) -> ProcessId:
    """The process of a child that goes on when this one ends: nobody waits for it, and Python need not warn of that."""
    child.returncode = 0
    return process_of(child.pid)


def collect(pid: int) -> None:
    """Let the system forget a child of this process that has ended, so that it does not stay a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def this_kernel() -> str:
    """`<boot>.<process namespace>` of the calling process; elsewhere than on Linux `<machine>.<system>`."""
    if sys.platform != "linux":
        return f"{zlib.crc32(platform.node().encode()):08x}.{sys.platform}"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    return f"{boot[:12]}.{os.stat('/proc/self/ns/pid').st_ino}"


def may_run(host: str, pid: int, process: str | None) -> bool:
    """Whether a process that a record names may still run. `process` is the text of its ProcessId; None in records of versions
    that wrote none.

    One of another host cannot be seen from here and may. Without its ProcessId, whoever has its number may be it.
    """
    if host != socket.gethostname():
        return True
    known = ProcessId.parse(process or "")
    if known is not None:
        return not known.is_gone()
    if _start_and_state(pid) is None and not _is_hidden(pid):
        return False
    _log.warning(
        "a record of an older Troupe does not tell whether process %d is the one it means: counted as running", pid
    )
    return True


def _start_and_state(pid: int) -> tuple[int, bool] | None:
    """(start, whether it is a zombie) of a process as `ProcessId` counts it; None when there is none to be seen."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return int(fields[_START_TICKS]), fields[_STATE] in "ZX"
    try:
        process = psutil.Process(pid)
        return round(process.create_time() * 1e6), process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None


def _is_hidden(pid: int) -> bool:
    """Whether another user's process has the number, where the system shows only one's own."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False
