"""Identity of processes: kernel, pid and start, because pids are reused and clocks are set."""

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

_TEXT = re.compile(r"([^-]+)-([0-9]{1,20})-([0-9]{1,20})")
_START_TICKS = 19
_STATE = 0


class ProcessId(NamedTuple):
    """The unique identity of a process. `str(process)` is safe in labels, file names and cgroup names; `parse` reads it."""

    kernel: str
    """That of `this_kernel`."""
    pid: int
    started: int
    """On Linux in clock ticks since boot, which does not depend on the clock; elsewhere the stored start time of the process in
    microseconds since the epoch."""

    def __str__(self) -> str:
        return f"{self.kernel}-{self.pid}-{self.started}"

    @classmethod
    def parse(cls, text: str) -> "ProcessId | None":
        """The process with this text, or None if the text is invalid."""
        found = _TEXT.fullmatch(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    def is_gone(self) -> bool:
        """Whether this process has ended or is a zombie. False if it is invisible: in another namespace, or hidden."""
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
    """The current process or zombie with this pid. Raises ProcessLookupError if there is none."""
    found = _start_and_state(pid)
    if found is None:
        raise ProcessLookupError(f"no process {pid}")
    return ProcessId(this_kernel(), pid, found[0])


def left_running(child: subprocess.Popen[bytes]) -> ProcessId:
    """The identity of a child that outlives this process: marks it so that Python does not warn that nobody waits for it."""
    child.returncode = 0
    return process_of(child.pid)


def collect(pid: int) -> None:
    """Reap a child of this process that has ended, so that it does not stay a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def this_kernel() -> str:
    """`<boot>.<process namespace>` of the calling process; on other systems than Linux `<machine>.<system>`."""
    if sys.platform != "linux":
        return f"{zlib.crc32(platform.node().encode()):08x}.{sys.platform}"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip().replace("-", "")
    return f"{boot[:12]}.{os.stat('/proc/self/ns/pid').st_ino}"


def may_run(host: str, process: str) -> bool:
    """Whether the process of a record, by the text of its ProcessId, may still run; on another host it is invisible and may."""
    if host != socket.gethostname():
        return True
    known = ProcessId.parse(process)
    assert known is not None, f"{process!r} is no ProcessId"
    return not known.is_gone()


def _start_and_state(pid: int) -> tuple[int, bool] | None:
    """(`ProcessId.started`, whether it is a zombie) of a visible process, or None."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return int(fields[_START_TICKS]), fields[_STATE] in "ZX"
    try:
        process = psutil.Process(pid)
        return round(process.create_time() * 1e6), process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None


def _is_hidden(pid: int) -> bool:
    """Whether a process of another user has this pid, on systems that hide those."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        pass
    return False
