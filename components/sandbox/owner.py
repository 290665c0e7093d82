"""Whose box it is: a process by its kernel, number and start time, because numbers are used again."""

import os
import re
from pathlib import Path
from typing import NamedTuple

_NUMBER = re.compile(r"[0-9]{1,20}")
"""Labels are anybody's text, and not all that `str.isdigit` calls a digit can be read as a number."""
_START_TIME = 19
_STATE = 0


class Owner(NamedTuple):
    """A process. `str(owner)` is safe in labels, file names and cgroup names, and `Owner.parse` reads it."""

    kernel: str
    """As `this_kernel` names it."""
    pid: int
    started_ticks: int
    """Since the machine's start."""

    def __str__(self) -> str:
        return f"{self.kernel}-{self.pid}-{self.started_ticks}"

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        """The owner that `text` names; None when it names none."""
        kernel, _, rest = text.partition("-")
        pid, _, started = rest.partition("-")
        if not kernel or not _NUMBER.fullmatch(pid) or not _NUMBER.fullmatch(started):
            return None
        return cls(kernel, int(pid), int(started))

    def is_gone(self) -> bool:
        """Whether that very process has ended, a zombie included. An owner that cannot be seen from here is not gone."""
        if self.kernel != this_kernel():
            return self.kernel.partition(".")[0] != this_kernel().partition(".")[0]
        found = _stat(self.pid)
        return found is None or found[_STATE] in "ZX" or int(found[_START_TIME]) != self.started_ticks


def this_owner() -> Owner:
    """The calling process."""
    return owner_of(os.getpid())


def owner_of(pid: int) -> Owner:
    """The process that has `pid` now. Raises ProcessLookupError when there is none."""
    found = _stat(pid)
    if found is None:
        raise ProcessLookupError(f"no process {pid}")
    return Owner(this_kernel(), pid, int(found[_START_TIME]))


def this_kernel() -> str:
    """`<boot>.<process namespace>` of the calling process."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    return f"{boot[:12]}.{os.stat('/proc/self/ns/pid').st_ino}"


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the state on; None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
