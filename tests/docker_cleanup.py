"""Ends what a killed or interrupted test run would leave: services, and Docker engines, whose mounts keep its folder from being
removed by later runs.

    python -m tests.docker_cleanup FOLDER OWNER

waits for input, for its end, or for that of the process OWNER, however it ends.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import psutil

from components.errors import SandboxUnavailable
from components.machine.process_ids import ProcessId, this_process
from components.sandbox.daemon import stop_daemon
from infra.services.process import MARK

MOST_SECONDS = 120.0
"""For all to end. A process that still holds the other end would make it forever."""
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 2.0


@contextmanager
def leftovers_ended_below(folder: Path) -> Iterator[None]:
    """While this process lives services and engines may run below `folder`; afterwards none does, even if it is killed."""
    command = [sys.executable, "-m", "tests.docker_cleanup", str(folder), str(this_process())]
    watcher = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        with watcher:
            try:
                watcher.communicate(b"end", timeout=MOST_SECONDS)
            except subprocess.TimeoutExpired:
                watcher.kill()
                raise


def state_folders_below(folder: Path) -> set[Path]:
    """The state folders below `folder` whose engine runs, or has left a mount."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    named = [word for command in commands for flag, word in pairwise(command) if flag == "--data-root"]
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounted = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    paths = [Path(path) for path in (*named, *mounted) if Path(path).is_relative_to(folder)]
    data_folders = [each for path in paths for each in (path, *path.parents) if each.parts[-2:] == ("engine", "data")]
    return {each.parent.parent for each in data_folders}


def processes_below(folder: Path) -> list[psutil.Process]:
    """The services, and commands that may be starting some, whose Troupe home is below `folder`."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environ = {} if process.status() == psutil.STATUS_ZOMBIE else process.environ()
            homes = (environ.get("TROUPE_HOME", ""), environ.get(MARK, "").partition("@")[2])
            if process.pid != os.getpid() and any(Path(home).is_relative_to(folder) for home in homes if home):
                found.append(process)
    return found


def end_processes_below(folder: Path) -> None:
    """End them: SIGTERM, then SIGKILL. What one of them has started meanwhile is ended, too."""
    deadline = time.monotonic() + MOST_SECONDS / 2
    while (left := processes_below(folder)) and time.monotonic() < deadline:
        for process in left:
            with suppress(psutil.Error):
                process.terminate()
        for process in psutil.wait_procs(left, timeout=_GRACE_SECONDS)[1]:
            with suppress(psutil.Error):
                process.kill()


def end_engines_below(folder: Path, *, but: Set[Path] = frozenset()) -> None:
    """End the engines whose state folder is below `folder`, `but` some."""
    for state_folder in sorted(state_folders_below(folder) - but):
        with suppress(SandboxUnavailable):
            stop_daemon(state_folder)


def wait_for_end(owner: ProcessId) -> None:
    """Return when there is input, or none any more, or `owner` has ended, whose end of the input another process may hold."""
    while not owner.is_gone():
        readable, _, _ = select.select([sys.stdin], [], [], _POLL_SECONDS)
        if readable:
            return


if __name__ == "__main__":
    below, owner = Path(sys.argv[1]), ProcessId.parse(sys.argv[2])
    assert owner is not None, f"{sys.argv[2]!r} is no ProcessId"
    wait_for_end(owner)
    end_processes_below(below)
    end_engines_below(below)
