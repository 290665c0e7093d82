"""The processes of a private Docker daemon: their files, start, stop and leftovers."""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from components.errors import SandboxUnavailable
from components.machine.process_ids import ProcessId, collect, left_running, this_kernel
from components.sandbox.cgroups import MOUNT, kill_all

_LOCK_SECONDS = 90.0
_END_SECONDS = 10.0
_POLL_SECONDS = 0.05
_PROGRAMS = ("dockerd", "containerd", "containerd-shim")
_RUNTIME_PARENT = Path("/run")
_SHIM_SOCKETS = "/run/containerd/s"  # containerd's own choice, whatever folders it is given
_MNT_DETACH = 2
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the daemon finds its own programs. It needs nothing else from our environment, and pulls no images."""


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one private daemon. All paths follow from the state folder."""

    state_folder: Path

    @property
    def folder(self) -> Path:
        return self.state_folder.absolute() / "engine"

    @property
    def log(self) -> Path:
        return self.folder / "dockerd.log"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def record(self) -> Path:
        return self.folder / "process"

    @property
    def name(self) -> str:
        """Also of its control groups."""
        return f"troupe-engine-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"

    @property
    def runtime(self) -> Path:
        """The folder of its sockets, not below the state folder: their paths have at most 107 characters."""
        return _RUNTIME_PARENT / self.name

    @property
    def host(self) -> str:
        return f"unix://{self.runtime}/docker.sock"


@contextmanager
def lock_daemon(places: Places) -> Iterator[None]:
    """Hold the daemon's lock: one process at a time starts or stops it. Raises SandboxUnavailable after 90 s of waiting."""
    places.folder.mkdir(parents=True, exist_ok=True)
    with (places.folder / "lock").open("w", encoding="utf-8") as file:

        def is_ours() -> bool:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            return False

        if not within(_LOCK_SECONDS, is_ours):
            raise SandboxUnavailable(f"{file.name} has been held for {_LOCK_SECONDS:.0f} s by another process")
        yield


def dockerd_process(places: Places) -> ProcessId | None:
    """The daemon's process if it runs, answering or not."""
    try:
        found = ProcessId.parse(places.record.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if found is not None and found.kernel == this_kernel():
        collect(found.pid)  # a killed child of this process would stay a zombie and keep its pid
    return None if found is None or found.is_gone() else found


def start_dockerd(places: Places, program: str) -> None:
    """Start the daemon in its own session, after removing what an earlier one left. It answers some seconds later."""
    remove_remains(places)
    places.runtime.mkdir(mode=0o700)
    settings = places.folder / "daemon.json"
    settings.write_text("{}", encoding="utf-8")  # the machine's own file may contradict these flags
    command = [
        *(program, "--config-file", str(settings), "--host", places.host, "--data-root", str(places.data)),
        *("--exec-root", str(places.runtime / "exec"), "--pidfile", str(places.runtime / "dockerd.pid")),
        *("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
        *("--userland-proxy=false", "--storage-driver=overlay2", "--exec-opt", "native.cgroupdriver=cgroupfs"),
        *("--cgroup-parent", f"/{places.name}", "--log-level=warn"),
    ]
    with places.log.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={"PATH": os.pathsep.join([str(Path(program).parent), _SYSTEM_PATH])},
        )
    places.record.write_text(str(left_running(process)), encoding="utf-8")


def stop_dockerd(places: Places) -> bool:
    """Stop the daemon and its containers and remove all leftovers but its images; returns whether it ran."""
    owner = dockerd_process(places)
    if owner is not None:
        _kill_containers(places)
        with contextlib.suppress(ProcessLookupError):
            os.kill(owner.pid, signal.SIGCONT)
            os.kill(owner.pid, signal.SIGTERM)
        within(_END_SECONDS, lambda: dockerd_process(places) is None)
    remove_remains(places)
    return owner is not None


def remove_remains(places: Places) -> bool:
    """Kill what is left of a daemon and its containers, and remove mounts, control groups and sockets.

    Returns whether there was anything. Raises SandboxUnavailable when a process does not end.
    """
    programs = _programs(places)
    anything = bool(programs) or places.runtime.exists()
    sockets = [path for process in programs for path in _shim_sockets(process)]
    for process in programs:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _kill_containers(places)
    if not within(_END_SECONDS, lambda: dockerd_process(places) is None and not _programs(places)):
        raise SandboxUnavailable(f"processes {[p.pid for p in _programs(places)]} of {places.runtime} cannot be ended")
    _unmount(places)
    _remove_cgroups(places)
    for path in sockets:
        Path(path).unlink(missing_ok=True)
    if not _mounts(places):
        shutil.rmtree(places.runtime, ignore_errors=True)
    places.record.unlink(missing_ok=True)
    return anything


def log_tail(places: Places, num_lines: int = 15) -> str:
    """The end of the daemon's log, for errors."""
    lines = []
    with contextlib.suppress(OSError):
        lines = places.log.read_text(errors="replace", encoding="utf-8").splitlines()[-num_lines:]
    return "\n".join([f"The end of {places.log}:", *(f"  {line[:500]}" for line in lines)])


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Wait until `holds` is true; returns whether it was in this time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _programs(places: Places) -> list[psutil.Process]:
    """dockerd, containerd and its shims: processes of this user by these names with the runtime folder in the command line."""
    found = []
    for process in psutil.process_iter(["name", "cmdline", "status", "uids"]):
        owner, words = process.info["uids"], process.info["cmdline"] or ()
        named = owner is not None and owner.real == os.getuid() and any(str(places.runtime) in word for word in words)
        if named and str(process.info["name"]).startswith(_PROGRAMS) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def _shim_sockets(process: psutil.Process) -> list[str]:
    try:
        connections = process.net_connections(kind="unix")
    except psutil.Error:
        return []
    return [connection.laddr for connection in connections if os.path.dirname(connection.laddr) == _SHIM_SOCKETS]


def _cgroups(places: Places) -> list[Path]:
    """The daemon's control groups, children first: one below each controller (version 1), or one in all (version 2)."""
    tops = [path for path in (MOUNT / places.name, *MOUNT.glob(f"*/{places.name}")) if path.is_dir()]
    return [Path(folder) for top in tops for folder, _, _ in os.walk(top, topdown=False)]


def _kill_containers(places: Places) -> None:
    """Kill the processes in the daemon's control groups until none is left."""
    within(_END_SECONDS, lambda: not sum(map(kill_all, _cgroups(places))))


def _remove_cgroups(places: Places) -> None:
    for folder in _cgroups(places):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _mounts(places: Places) -> list[str]:
    """Mount points in the daemon's folders, newest first. The daemon mounts its data folder onto itself."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    plain = [Path(point.encode().decode("unicode_escape")) for point in reversed(points)]
    return [str(point) for point in plain if point.is_relative_to(places.data) or point.is_relative_to(places.runtime)]


def _unmount(places: Places) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for point in _mounts(places):
        libc.umount2(point.encode(), _MNT_DETACH)
