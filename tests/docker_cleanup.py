"""Ends the Docker engines that a killed test run would leave: their mounts keep its folder from being removed by later runs.

    python -m tests.docker_cleanup FOLDER

waits until its input ends, which is when the process that holds the other end does, however it ends.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import psutil

from components.errors import SandboxUnavailable
from components.sandbox.daemon import stop_daemon

MOST_SECONDS = 120.0
"""For the engines to end. A process that still holds the other end would make it forever."""


@contextmanager
def leftovers_ended_below(folder: Path) -> Iterator[None]:
    """While this process lives engines may run below `folder`; afterwards none does, even if it is killed."""
    command = [sys.executable, "-m", "tests.docker_cleanup", str(folder)]
    watcher = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        with watcher:
            try:
                watcher.communicate(b"", timeout=MOST_SECONDS)
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


if __name__ == "__main__":
    sys.stdin.buffer.read()
    for state_folder in sorted(state_folders_below(Path(sys.argv[1]))):
        with suppress(SandboxUnavailable):
            stop_daemon(state_folder)
