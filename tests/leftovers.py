"""Ends what a killed test run would leave: servers, which slow later runs down, and Docker engines, whose mounts keep its
folder from being removed.

    python -m tests.leftovers FOLDER

waits until its input ends, which is when the process that holds the other end does, however it ends.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import psutil

from components.sandbox.daemon import stop_daemon


def state_folders_below(folder: Path) -> set[Path]:
    """The state folders below `folder` whose engine runs, or has left a mount."""
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    named = [word for command in commands for flag, word in pairwise(command) if flag == "--data-root"]
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounted = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    paths = [Path(path) for path in (*named, *mounted) if Path(path).is_relative_to(folder)]
    data_folders = [each for path in paths for each in (path, *path.parents) if each.parts[-2:] == ("engine", "data")]
    return {each.parent.parent for each in data_folders}


@contextmanager
def leftovers_ended_below(folder: Path) -> Iterator[None]:
    """While this process lives engines and servers may run below `folder`; afterwards none does, even if it is killed."""
    command = [sys.executable, "-m", "tests.leftovers", str(folder)]
    watcher = subprocess.Popen(
        command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, start_new_session=True, close_fds=True
    )
    try:
        yield
    finally:
        watcher.communicate(b"")


def servers_named(folder: Path) -> list[psutil.Process]:
    """The processes with `folder`, or a path below it, in the command line, but for this one."""
    found = [each for each in psutil.process_iter(["cmdline"]) if each.pid != os.getpid()]
    return [each for each in found if any(f"{folder}/" in f"{word}/" for word in each.info["cmdline"] or ())]


def main() -> None:
    folder, owner = Path(sys.argv[1]), os.getppid()
    sys.stdin.buffer.read()
    for state_folder in sorted(state_folders_below(folder)):
        stop_daemon(state_folder)
    if os.getppid() == owner:  # it ends in order, and has ended its servers
        return
    for server in servers_named(folder):
        with suppress(psutil.NoSuchProcess):
            server.kill()


if __name__ == "__main__":
    main()
