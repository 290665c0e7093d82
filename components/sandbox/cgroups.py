"""Control groups for bubblewrap's boxes: memory, processes and CPU of a whole box. Versions 1 and 2, root only."""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.machine.process_ids import ProcessId, this_process
from components.sandbox.box import BoxLimits

MOUNT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids", "cpu")
"""The controllers with limits."""
CPU_ACCOUNT = "cpuacct"
"""The controller that counts CPU time in version 1; in version 2 every group does."""
_PARENT = "troupe"
_PERIOD_MICROSECONDS = 100_000
_REMOVE_SECONDS = 2.0
_CHARGED_AT_ONCE_BYTES = 1 << 20
"""More than the kernel charges at once: a group with less room left has hit its limit."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One box's control groups. Their names contain this process, so that `remove_leftovers` finds them when it is dead."""

    folders: Mapping[str, Path]
    """Each group's folder, by the path under `MOUNT` at which its box sees it."""

    @property
    def counts_cpu(self) -> bool:
        """Whether the box can read its own CPU time."""
        return "" in self.folders or CPU_ACCOUNT in self.folders

    def num_ended_for_memory(self) -> int:
        """Processes of the group that the kernel killed for memory, the group's or the machine's."""
        return self._memory_count("oom_kill")

    def has_met_memory_limit(self) -> bool:
        """Whether the group ever hit its memory limit."""
        if "" in self.folders:
            return self._memory_count("oom") > 0
        folder = self.folders["memory"]
        limit, peak = (
            int((folder / f"memory.{name}_in_bytes").read_text(encoding="utf-8")) for name in ("limit", "max_usage")
        )
        return peak > limit - _CHARGED_AT_ONCE_BYTES

    def _memory_count(self, key: str) -> int:
        is_version_2 = "" in self.folders
        file = self.folders[""] / "memory.events" if is_version_2 else self.folders["memory"] / "memory.oom_control"
        told = file.read_text(encoding="utf-8").split()
        return int(told[told.index(key) + 1])

    def add(self, pid: int) -> None:
        """Move a process into the groups; its future children are in them, too."""
        for folder in self.folders.values():
            (folder / "cgroup.procs").write_text(str(pid), encoding="utf-8")

    def remove(self) -> None:
        """Kill all processes inside and remove the groups; groups that are still busy are removed at the next start."""
        for folder in self.folders.values():
            _remove(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupTree:
    """The folders for new groups: one per controller (version 1), or one for all (version 2)."""

    parents: Mapping[str, Path]
    """Keyed by the path under the mount, which is empty in version 2."""
    version: int

    def make(self, limits: BoxLimits) -> Cgroup:
        """Groups for a new box, with its limits. Raises OSError."""
        name = f"{this_process()}-{next(_numbers)}"
        cgroup = Cgroup({place: parent / name for place, parent in self.parents.items()})
        try:
            for place, folder in cgroup.folders.items():
                folder.mkdir(exist_ok=place == CPU_ACCOUNT)  # often one hierarchy with that of "cpu"
                for file, value in _values(self.version, place, limits).items():
                    if (folder / file).exists() or file not in _OPTIONAL:
                        (folder / file).write_text(value, encoding="utf-8")
        except OSError:
            cgroup.remove()
            raise
        return cgroup


def find_cgroups(mount: Path = MOUNT) -> CgroupTree | None:
    """The folders for groups with all three controllers; None if this process can make none (no root, read-only mount)."""
    if os.geteuid() != 0:
        return None
    try:
        if (mount / "cgroup.controllers").exists():
            return _version_2(mount)
        if all((mount / controller / "cgroup.procs").exists() for controller in CONTROLLERS):
            account = [CPU_ACCOUNT] if (mount / CPU_ACCOUNT / "cpuacct.usage").exists() else []
            parents = {controller: mount / controller / _PARENT for controller in (*CONTROLLERS, *account)}
            for parent in parents.values():
                parent.mkdir(exist_ok=True)
            return CgroupTree(parents=parents, version=1)
    except OSError:
        return None
    return None


def remove_leftovers(mount: Path = MOUNT) -> int:
    """Remove the groups of dead processes, with all that still runs inside; returns how many folders there were."""
    leftovers = [
        folder for folder in _group_folders(mount) if (owner := _owner(folder)) is not None and owner.is_gone()
    ]
    for folder in leftovers:
        _remove(folder)
    return len(leftovers)


def group_owners(mount: Path = MOUNT) -> dict[str, ProcessId | None]:
    """The owner of each box's groups, by the name of the groups."""
    return {folder.name: _owner(folder) for folder in _group_folders(mount)}


def _group_folders(mount: Path) -> list[Path]:
    parents = {mount / _PARENT, *(mount / place / _PARENT for place in (*CONTROLLERS, CPU_ACCOUNT))}
    return [folder for parent in parents for folder in parent.glob("*-*-*-*")]


def _owner(group: Path) -> ProcessId | None:
    return ProcessId.parse(group.name.rpartition("-")[0])


def _version_2(mount: Path) -> CgroupTree | None:
    if not set(CONTROLLERS) <= set((mount / "cgroup.controllers").read_text(encoding="utf-8").split()):
        return None
    parent = mount / _PARENT
    parent.mkdir(exist_ok=True)
    wanted = " ".join(f"+{controller}" for controller in CONTROLLERS)
    for folder in (mount, parent):
        if not set(CONTROLLERS) <= set((folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()):
            (folder / "cgroup.subtree_control").write_text(wanted, encoding="utf-8")
    return CgroupTree(parents={"": parent}, version=2)


_OPTIONAL = {"memory.swap.max", "memory.memsw.limit_in_bytes"}
"""Files that exist only where the kernel counts swap."""


def _values(version: int, place: str, limits: BoxLimits) -> dict[str, str]:
    """The values to write by file name, in this order."""
    num_bytes = str(limits.memory_mib << 20)
    quota = int(limits.num_cpus * _PERIOD_MICROSECONDS)
    if version == 2:
        return {
            "memory.max": num_bytes,
            "memory.swap.max": "0",
            "pids.max": str(limits.num_processes),
            "cpu.max": f"{quota} {_PERIOD_MICROSECONDS}",
        }
    return {
        "memory": {"memory.limit_in_bytes": num_bytes, "memory.memsw.limit_in_bytes": num_bytes},
        "pids": {"pids.max": str(limits.num_processes)},
        "cpu": {"cpu.cfs_period_us": str(_PERIOD_MICROSECONDS), "cpu.cfs_quota_us": str(quota)},
        CPU_ACCOUNT: {},
    }[place]


def _remove(folder: Path) -> None:
    """Remove a group, which succeeds once its last process is reaped, a moment after it was killed."""
    end = time.monotonic() + _REMOVE_SECONDS
    while True:
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > end:
                return
        kill_all(folder)
        time.sleep(0.005)


def kill_all(folder: Path) -> bool:
    """Kill the processes of a group; returns whether there were any."""
    try:
        pids = (folder / "cgroup.procs").read_text(encoding="utf-8").split()
    except OSError:
        return False  # the group is gone
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    return bool(pids)
