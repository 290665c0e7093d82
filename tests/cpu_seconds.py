"""What tests and the parts of `.ci/run` cost in CPU seconds, user and system, of all their processes.

As a program, `cpu_seconds.py PART COMMAND...` runs a command, adds a line for it to the file CPU_SECONDS_FILE and ends with its
exit code; `cpu_seconds.py` alone prints the lines and their sum. Imported by `conftest.py`, it counts the tests by file.
"""

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_SET_CHILD_SUBREAPER = 36
_PATIENCE_SECONDS = 20.0
"""How long processes that a command leaves behind may take to end, so that they are counted."""
_SMALLEST_LINE = 5.0


def run_part(part: str, command: list[str]) -> int:
    """Run a part of `.ci/run` and note what it and all that it left behind cost; its exit code."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)  # who is orphaned becomes our child, and is counted when it ends
    started = time.monotonic()
    child, code = subprocess.Popen(command), None
    while code is None:  # an orphan that has ended is no zombie for long: tests ask whether a process is there
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status) if pid == child.pid else None
    child.returncode = code
    seconds = time.monotonic() - started
    left = "" if _reap_orphans() else ", and a process that still runs"
    with Path(os.environ["CPU_SECONDS_FILE"]).open("a") as file:
        file.write(f"{cpu_seconds_until_now():9.1f} CPU seconds in {seconds:7.1f} s: {part}{left}\n")
    return code


def cpu_seconds_until_now() -> float:
    """CPU seconds of this process, all its threads, and the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def cpu_seconds_of_tree(pid: int) -> float:
    """CPU seconds until now of a process, its living descendants, and all of their children that have been waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = [file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return 0.0
    own = sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return own + sum(cpu_seconds_of_tree(int(child)) for several in children for child in several)


def _reap_orphans() -> bool:
    """Whether all orphans have ended."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.2)
        return False
    return True


def print_parts() -> None:
    """The lines of all parts, and their sum."""
    lines = Path(os.environ["CPU_SECONDS_FILE"]).read_text().splitlines()
    for line in (*lines, f"{sum(float(line.split()[0]) for line in lines):9.1f} CPU seconds in all"):
        print(line)


class CpuSecondsOfTests:
    """A plugin of pytest that counts the tests of each file, where they run, and prints the largest counts.

    `starts_servers` says of a test whether its work may be done by processes that outlive it, as far as they descend from us;
    `ends_servers` of a test and the next one whether they end between the two.
    """

    def __init__(self, starts_servers: Callable[[str], bool], ends_servers: Callable[[Any, Any], bool]) -> None:
        self._starts_servers, self._ends_servers = starts_servers, ends_servers
        self._by_file: Counter[str] = Counter()
        self._until = self._phase = 0.0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Leave out what was before the test."""
        self._until = self._count(nodeid)

    def pytest_runtest_teardown(self, item: Any, nextitem: Any) -> None:
        """Remember whether servers end now, what they did having been counted or being nobody's."""
        self._is_last = nextitem is None or (self._starts_servers(item.nodeid) and self._ends_servers(item, nextitem))

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Count what this phase of the test has cost; its report carries it to the process that prints."""
        now = self._count(item.nodeid)
        ends_servers = call.when == "teardown" and self._is_last
        self._phase, self._until = 0.0 if ends_servers else now - self._until, now

    def _count(self, nodeid: str) -> float:
        return cpu_seconds_of_tree(os.getpid()) if self._starts_servers(nodeid) else cpu_seconds_until_now()

    def pytest_report_to_serializable(self, report: Any) -> None:
        """Add the count of the phase that has just ended."""
        report.cpu_seconds = self._phase

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._by_file[report.nodeid.split("::")[0]] += getattr(report, "cpu_seconds", self._phase)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._by_file:
            return
        counted = self._by_file.total()
        terminalreporter.section(f"CPU seconds of tests by file, {counted:.0f} in all, without imports and services")
        for file, seconds in self._largest():
            terminalreporter.line(f"{seconds:9.1f}  {file}")

    def _largest(self) -> Iterator[tuple[str, float]]:
        rest = 0.0
        for file, seconds in self._by_file.most_common():
            if seconds >= _SMALLEST_LINE:
                yield file, seconds
            else:
                rest += seconds
        yield f"files below {_SMALLEST_LINE:g}", rest


if __name__ == "__main__":
    if not sys.argv[1:]:
        print_parts()
    else:
        sys.exit(run_part(sys.argv[1], sys.argv[2:]))
