"""Peak memory and processor time of a process and all its descendants, watched from outside while it runs."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from tests.processes import tree

SAMPLE_SECONDS = 0.05
PSS_SECONDS = 0.5
TREE_SECONDS = 0.25
_HIGHER = 1.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The most that a process tree held at once, and all that it computed.

    `pss_mib` divides a shared page by the number of processes that map it, so that the libraries of several workers count once;
    `rss_mib` counts such a page for each of them. `num_processes` is how many there were when `pss_mib` was highest.
    """

    pss_mib: float
    rss_mib: float
    num_processes: int
    cpu_seconds: float


def watch(process: subprocess.Popen[bytes], timeout_seconds: float) -> Footprint:
    """The footprint of `process`, which has ended when this returns. Raises TimeoutExpired.

    Resident memory is read every 50 ms. Its proportional share takes milliseconds a process and stops it for as long, so it is
    read every half second, and at once when resident memory is higher than ever.
    """
    peak, deadline = _Peak(), time.monotonic() + timeout_seconds
    while process.poll() is None:
        now = time.monotonic()
        if now > deadline:
            raise subprocess.TimeoutExpired(process.args, timeout_seconds)
        peak.sample(process.pid, now)
        time.sleep(SAMPLE_SECONDS)
    return peak.footprint()


def pss_mib(processes: Sequence[psutil.Process]) -> float:
    """The proportional share of those that live."""
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total / 2**20


@dataclass(slots=True)
class _Peak:
    rss_mib: float = 0.0
    pss_mib: float = 0.0
    num_processes: int = 0
    cpu_seconds: dict[int, float] = field(default_factory=dict)
    """By process, those that have ended too."""
    _tree: list[psutil.Process] = field(default_factory=list)
    _tree_at: float = float("-inf")
    _pss_at: float = float("-inf")

    def sample(self, pid: int, now: float) -> None:
        if now - self._tree_at >= TREE_SECONDS:
            self._tree, self._tree_at = tree(pid), now
        rss_mib = self._resident()
        if rss_mib > self.rss_mib * _HIGHER or now - self._pss_at >= PSS_SECONDS:
            self._pss_at = now
            pss = pss_mib(self._tree)
            if pss > self.pss_mib:
                self.pss_mib, self.num_processes = pss, len(self._tree)
        self.rss_mib = max(self.rss_mib, rss_mib)

    def footprint(self) -> Footprint:
        return Footprint(
            pss_mib=self.pss_mib,
            rss_mib=self.rss_mib,
            num_processes=self.num_processes,
            cpu_seconds=sum(self.cpu_seconds.values()),
        )

    def _resident(self) -> float:
        total = 0
        for process in self._tree:
            try:
                with process.oneshot():
                    total += process.memory_info().rss
                    times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            self.cpu_seconds[process.pid] = times.user + times.system
        return total / 2**20
