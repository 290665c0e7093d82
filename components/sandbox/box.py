"""One box, in which programs run one at a time."""

import json
from dataclasses import dataclass
from typing import Protocol

from components.sandbox.seccomp import encode_filter
from components.schema import Limits

RUNNER_PATH = "/runner.py"
"""The path of the runner in the root file system of a box."""
_MODULES = ("cleanup.py", "confinement.py", "job.py", "program.py", "usage_counters.py")
RUNNER_FILES = {"runner.py": RUNNER_PATH, **{name: f"/components/sandbox/{name}" for name in _MODULES}}
"""Our files in a box: the names in this folder, and the paths in the root file system of a box."""
RUNNER_ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LOGNAME": "nobody",
    "PATH": "/usr/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
"""The complete environment of the runner, and so of every program."""
BOX_UID = 65534
"""The user and group of programs in boxes with a user namespace."""
_MASKED = """
locks keys key-users timer_list interrupts softirqs sched_debug schedstat latency_stats kallsyms modules zoneinfo buddyinfo
diskstats partitions swaps iomem ioports sysrq-trigger acpi asound scsi driver pressure fs bus irq tty sys stat vmstat
"""
MASKED = tuple(f"/proc/{name}" for name in _MASKED.split())
"""Files in which the kernel reports on the whole machine. Programs do not need them."""
RUNNER_MIB = 64
"""The memory of a box beyond the program's limit: the runner, the program's image and a full /tmp."""


def runner_command(*, keep_sigchld: bool = False, **settings: int) -> tuple[str, ...]:
    """The command of process 1; see `Runner` and `harden` for `settings`, `system_call_filter` for `keep_sigchld`."""
    # Not `-I`: the hash seed comes from the environment, so that equal programs give equal results.
    return (
        "/usr/bin/python3",
        "-s",
        RUNNER_PATH,
        json.dumps({"filter": encode_filter(keep_sigchld=keep_sigchld), "keep_sigchld": keep_sigchld, **settings}),
    )


RUNNER_COMMAND = runner_command()
"""The command in a box that has a /tmp and a limit on its processes."""


class BoxGone(Exception):
    """The box ended, did not answer in time or broke the protocol. Caught by the pool, which takes another box."""


class BoxTimeout(BoxGone):
    """The box did not answer in time. Its job is not retried: it would take as long."""


class BoxOutOfMemory(BoxGone):
    """The program used up the memory of its box, so that the kernel killed the runner. The job's result is `memory`."""


class Box(Protocol):
    """A started container or namespace with the runner as its process 1. Used by one thread at a time."""

    def ask(self, frame: bytes, *, timeout_seconds: float) -> bytes:
        """Send a frame of `protocol.encode_job`, and return the payload of the answer, unchecked.

        Raises BoxTimeout without a whole answer in time, BoxOutOfMemory when the box ended and the kernel reports that its
        memory was used up, BoxGone when it ended otherwise or answered more than `protocol.MAX_ANSWER_BYTES`.
        """
        ...

    def close(self) -> None:
        """Kill the box with all its processes. May be called during `ask` of another thread; never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxLimits:
    """The limits of one whole box: the program with all its processes, the runner, and the files in /tmp."""

    memory_mib: int = Limits().memory_mib + RUNNER_MIB
    num_processes: int = 64
    num_cpus: float = 1.0
    tmp_mib: int = 32
    num_tmp_files: int = 2048

    @classmethod
    def around(cls, limits: Limits) -> "BoxLimits":
        """The limits of a box in which a single process hits its own memory limit before that of the box."""
        return cls(memory_mib=limits.memory_mib + RUNNER_MIB)

    def in_words(self) -> dict[str, str]:
        """The limits for a `SandboxDescription`."""
        return {
            "memory": f"{self.memory_mib} MiB",
            "processes": str(self.num_processes),
            "cpus": f"{self.num_cpus:g}",
            "tmp": f"{self.tmp_mib} MiB, {self.num_tmp_files} files, nothing executable",
            "network": "none",
        }
