"""What the kernel counts for one box, as process 1 of that box reads it. Runs inside: standard library only."""

import contextlib
import os

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class BoxClock:
    """The processor time of this box since `start`, which the kernel keeps for its control group.

    Where there is none it is the time of all living processes, and of all that somebody waited for: that is sound as long as
    no end of a child goes unnoticed, which the system call filter sees to.
    """

    def __init__(self) -> None:
        self._version_1 = os.path.exists("/sys/fs/cgroup/cpuacct/cpuacct.usage")
        path = "/sys/fs/cgroup/cpuacct/cpuacct.usage" if self._version_1 else "/sys/fs/cgroup/cpu.stat"
        self._fd = os.open(path, os.O_RDONLY) if os.path.exists(path) else None
        self._started = 0.0

    @property
    def is_kept_by_the_kernel(self) -> bool:
        """Whether there is a control group that counts."""
        return self._fd is not None

    def start(self) -> None:
        self._started = self._now()

    def seconds(self, waited_seconds: float | None = None) -> float:
        """Since `start`. `waited_seconds` is the time of all processes where they have ended and were waited for."""
        if self._fd is not None:
            return self._now() - self._started
        return cpu_seconds_of_all() if waited_seconds is None else waited_seconds

    def _now(self) -> float:
        if self._fd is None:
            return 0.0
        told = os.pread(self._fd, 4096, 0)
        return int(told) / 1e9 if self._version_1 else int(told.split()[1]) / 1e6  # usage_usec comes first


class EventCount:
    """A count that the kernel keeps for this box, in the first of `paths` that there is."""

    def __init__(self, key: str, *paths: str) -> None:
        self._key = key.encode()
        self._fd = next((os.open(path, os.O_RDONLY) for path in paths if os.path.exists(path)), None)
        self._seen = self._now()

    def rose(self) -> bool:
        """Whether it rose since the last call. Never, where the kernel keeps none."""
        before, self._seen = self._seen, self._now()
        return self._seen > before

    def _now(self) -> int:
        if self._fd is None:
            return 0
        words = os.pread(self._fd, 4096, 0).split()
        return int(words[words.index(self._key) + 1]) if self._key in words else 0


def cpu_seconds_of_all() -> float:
    """CPU time so far of all processes but this one, and of those that they waited for."""
    ticks = 0
    told = bytearray(1024)  # forgotten at the end, as the names in it are chosen by programs
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{name}/stat", "rb", buffering=0) as file,
            ):  # it may have ended
                num_bytes = file.readinto(told)
                ticks += sum(map(int, told[told.rindex(b")", 0, num_bytes) + 1 : num_bytes].split()[11:15]))
    told[:] = bytes(len(told))
    return ticks / CLOCK_TICKS
