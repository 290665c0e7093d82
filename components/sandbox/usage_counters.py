"""The kernel's counters of one box, read by process 1 of that box. Runs inside the box: standard library only."""

import contextlib
import os

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class BoxClock:
    """The CPU time of this box since `start`, from its control group.

    Without a control group it is the sum over all living processes and all that were waited for. That is complete only if no
    child can end without being waited for, which the system call filter ensures.
    """

    def __init__(self) -> None:
        self._version_1 = os.path.exists("/sys/fs/cgroup/cpuacct/cpuacct.usage")
        path = "/sys/fs/cgroup/cpuacct/cpuacct.usage" if self._version_1 else "/sys/fs/cgroup/cpu.stat"
        self._fd = os.open(path, os.O_RDONLY) if os.path.exists(path) else None
        self._started = 0.0

    @property
    def is_kept_by_the_kernel(self) -> bool:
        """Whether a control group counts the CPU time."""
        return self._fd is not None

    def start(self) -> None:
        self._started = self._now()

    def seconds(self, waited_seconds: float | None = None) -> float:
        """CPU seconds since `start`. `waited_seconds`: the CPU time of all processes, once all have been waited for."""
        if self._fd is not None:
            return self._now() - self._started
        return cpu_seconds_of_all() if waited_seconds is None else waited_seconds

    def _now(self) -> float:
        if self._fd is None:
            return 0.0
        told = os.pread(self._fd, 4096, 0)
        return int(told) / 1e9 if self._version_1 else int(told.split()[1]) / 1e6  # usage_usec is the first value


class EventCount:
    """An event counter of this box, in the first of `paths` that exists."""

    def __init__(self, key: str, *paths: str) -> None:
        self._key = key.encode()
        self._fd = next((os.open(path, os.O_RDONLY) for path in paths if os.path.exists(path)), None)
        self._seen = self._now()

    def rose(self) -> bool:
        """Whether it has increased since the last call; always False if the kernel has no such counter."""
        before, self._seen = self._seen, self._now()
        return self._seen > before

    def _now(self) -> int:
        if self._fd is None:
            return 0
        words = os.pread(self._fd, 4096, 0).split()
        return int(words[words.index(self._key) + 1]) if self._key in words else 0


def cpu_seconds_of_all() -> float:
    """CPU time so far of all processes except this one, including children that they waited for."""
    ticks = 0
    told = bytearray(1024)  # cleared at the end: programs choose the process names in it
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{name}/stat", "rb", buffering=0) as file,
            ):  # the process may have ended
                num_bytes = file.readinto(told)
                ticks += sum(map(int, told[told.rindex(b")", 0, num_bytes) + 1 : num_bytes].split()[11:15]))
    told[:] = bytes(len(told))
    return ticks / CLOCK_TICKS
