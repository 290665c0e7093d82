"""One box: where programs run, one at a time, behind a stream of frames."""

import json
from dataclasses import dataclass
from typing import Protocol

from components.sandbox.seccomp import encoded_filter
from components.schema import Limits

RUNNER_PATH = "/runner.py"
"""Where the runner lies in the root file system of a box."""
RUNNER_FILES = {
    "runner.py": RUNNER_PATH,
    "box_counts.py": "/components/sandbox/box_counts.py",
    "clearing.py": "/components/sandbox/clearing.py",
    "confinement.py": "/components/sandbox/confinement.py",
    "job.py": "/components/sandbox/job.py",
    "program.py": "/components/sandbox/program.py",
}
"""All that is ours in a box: files of this folder, and where they lie in the root file system."""
RUNNER_ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LOGNAME": "nobody",
    "PATH": "/usr/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
"""The whole environment of the runner, and so of every program."""
BOX_UID = 65534
"""The user and the group that programs see themselves run as, where a box has user numbers of its own."""
_MASKED = """
locks keys key-users timer_list interrupts softirqs sched_debug schedstat latency_stats kallsyms modules zoneinfo buddyinfo
diskstats partitions swaps iomem ioports sysrq-trigger acpi asound scsi driver pressure fs bus irq tty sys stat vmstat
"""
MASKED = tuple(f"/proc/{name}" for name in _MASKED.split())
"""What the kernel tells of all processes of this machine at once, and a program need not know."""
RUNNER_MIB = 64
"""What a box holds beside a program at its memory limit: the runner, the program's image and a full /tmp."""


def runner_command(*, keep_sigchld: bool = False, **settings: int) -> tuple[str, ...]:
    """Process 1 of a box; see the runner for its settings, and `system_call_filter` for `keep_sigchld`."""
    # Not `-I`: the hash seed comes from the environment, so that equal programs give equal results.
    return (
        "/usr/bin/python3",
        "-s",
        RUNNER_PATH,
        json.dumps({"filter": encoded_filter(keep_sigchld=keep_sigchld), "keep_sigchld": keep_sigchld, **settings}),
    )


RUNNER_COMMAND = runner_command()
"""Process 1 of a box that comes with its /tmp and with a limit on its processes."""


class BoxGone(Exception):
    """The box ended, was silent for too long or broke the protocol. Never leaves this package: a pool takes another box."""


class BoxSilent(BoxGone):
    """The box did not answer in time. Its job is not tried again: it would take as long."""


class BoxOutOfMemory(BoxGone):
    """The program used up the memory of its box, and the kernel ended the runner for it. That is the job's result."""


class Box(Protocol):
    """One container or namespace with the runner as its process 1, started and ready. Used by one thread at a time."""

    def ask(self, frame: bytes, *, timeout_seconds: float) -> bytes:
        """Send one job, a frame of `protocol.encode_job`, and return the payload of the answer, unchecked.

        Raises BoxSilent when no whole answer came in time, BoxOutOfMemory when the box ended and its memory was used up
        meanwhile, as the kernel tells it, BoxGone when it ended otherwise, or said more than `protocol.MAX_ANSWER_BYTES`.
        """
        ...

    def close(self) -> None:
        """End the box and all that is in it, from any thread, `ask` of another thread included; never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxLimits:
    """What one whole box may use: the program with all its processes, the runner, and the files under /tmp."""

    memory_mib: int = Limits().memory_mib + RUNNER_MIB
    num_processes: int = 64
    num_cpus: float = 1.0
    tmp_mib: int = 32
    num_tmp_files: int = 2048

    @classmethod
    def around(cls, limits: Limits) -> "BoxLimits":
        """A box in which a single process meets its own memory limit before it meets the box's."""
        return cls(memory_mib=limits.memory_mib + RUNNER_MIB)

    def in_words(self) -> dict[str, str]:
        """The limits as a `SandboxDescription` tells them."""
        return {
            "memory": f"{self.memory_mib} MiB",
            "processes": str(self.num_processes),
            "cpus": f"{self.num_cpus:g}",
            "tmp": f"{self.tmp_mib} MiB, {self.num_tmp_files} files, nothing executable",
            "network": "none",
        }
