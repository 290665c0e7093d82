"""What a private daemon may not leave behind, looked for without its own code."""

import hashlib
import os
from pathlib import Path


def daemon_name(state_folder: Path) -> str:
    """How the processes, folders and control groups of the private daemon of `state_folder` are called."""
    return "troupe-engine-" + hashlib.sha256(str(state_folder / "engine").encode()).hexdigest()[:12]


def remains_of(state_folder: Path) -> list[str]:
    """Processes, mounts, control groups and sockets of the daemon of `state_folder`."""
    name = daemon_name(state_folder)
    processes = [f"process {pid}" for pid in pids_naming(f"/run/{name}")]
    mounts = Path("/proc/mounts").read_text().splitlines()
    found = [line for line in mounts if name in line or str(state_folder) in line]
    groups = [str(path) for pattern in (name, f"*/{name}") for path in Path("/sys/fs/cgroup").glob(pattern)]
    return [*processes, *found, *groups, *map(str, Path("/run").glob(f"{name}*"))]


def pids_naming(text: str) -> list[int]:
    """The processes with `text` on their command line, this one and its parents left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if text in words and int(folder.name) not in (os.getpid(), os.getppid()):
            found.append(int(folder.name))
    return found
