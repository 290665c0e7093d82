"""Boxes without a Docker daemon: bubblewrap starts the runner in its own namespaces.

Bubblewrap makes no control groups: as root they are made here. The runner mounts its /tmp (nothing executable, few files)
before it drops the capability to do so and filters system calls.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from components.errors import SandboxUnavailable, ServiceMissing
from components.sandbox.base import SandboxDescription
from components.sandbox.box import (
    BOX_UID,
    MASKED,
    RUNNER_ENVIRONMENT,
    Box,
    BoxGone,
    BoxLimits,
    BoxOutOfMemory,
    BoxTimeout,
    runner_command,
)
from components.sandbox.box_root import DEVICES, BoxRoot, BoxRoots
from components.sandbox.cgroups import MOUNT, Cgroup, CgroupTree, find_cgroups, remove_leftovers
from components.sandbox.pool import BoxPool
from components.sandbox.protocol import check_ready
from components.sandbox.stream import FrameStream
from components.sandbox.users import can_choose_users, in_words, next_box_uid

START_SECONDS = 20.0
_SWITCHES = {
    # Settings that forbid user namespaces: file, the forbidding value, and the remedy.
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl -w user.max_user_namespaces=10000"),
}


def open_bubblewrap(
    rootfs: Path,
    *,
    num_boxes: int,
    image_digest: str,
    limits: BoxLimits | None = None,
    bwrap: str = "bwrap",
    use_cgroups: bool = True,
    start_timeout_seconds: float = 30.0,
) -> BoxPool:
    """A pool of `num_boxes` boxes over the file system at `rootfs`, of which one is ready.

    As root, programs run as unprivileged users of this machine, in control groups. Without root, or where groups cannot be
    made, there are only the limits of each process, and the description says so. Groups of dead owners are removed.
    Raises ServiceMissing, with the remedy, when bubblewrap is not installed or may not make namespaces; SandboxUnavailable
    when no box starts.
    """
    program = shutil.which(bwrap)
    if program is None:
        raise ServiceMissing(f"{bwrap} is not installed: `apt-get install -y bubblewrap`")
    remove_leftovers()
    recipe = _Recipe(program, rootfs, limits or BoxLimits(), find_cgroups() if use_cgroups else None)
    description = SandboxDescription(
        backend="bubblewrap", image_digest=image_digest, num_boxes=num_boxes, box_limits=recipe.limits_in_words()
    )
    pool = BoxPool(recipe.make, description=description, start_timeout_seconds=start_timeout_seconds)
    pool.wait_ready()
    return pool


class _Recipe:
    """Makes the boxes of one pool."""

    def __init__(self, program: str, rootfs: Path, limits: BoxLimits, cgroups: CgroupTree | None) -> None:
        self._program = program
        self._limits = limits
        self._cgroups = cgroups
        self._roots = BoxRoots(rootfs)
        self._own_users = can_choose_users()

    def make(self) -> Box:
        cgroup = self._cgroups.make(self._limits) if self._cgroups else None
        uid = next_box_uid() if self._own_users else BOX_UID
        try:
            with self._roots.one() as root:
                return BubblewrapBox(self._argv(root, cgroup), cgroup=cgroup, uid=uid)
        except BaseException:
            if cgroup is not None:
                cgroup.remove()
            raise

    def limits_in_words(self) -> dict[str, str]:
        files = "its own" if self._roots.own else "one inode for all: locks on it are seen by other boxes"
        words = {**self._limits.in_words(), "user": in_words(own=self._own_users), "root files": files}
        if self._cgroups is not None:
            return {**words, "kept by": f"control groups, version {self._cgroups.version}"}
        for_each = "none for a box, the program's own for each process"
        return {
            **words,
            "memory": for_each,
            "cpus": "no share for a box, the program's own CPU time over all its processes",
            "kept by": "resource limits",
        }

    def _argv(self, root: BoxRoot, cgroup: Cgroup | None) -> list[str]:
        settings = {"tmp_mib": self._limits.tmp_mib, "num_tmp_files": self._limits.num_tmp_files}
        if cgroup is None:
            settings["num_processes"] = self._limits.num_processes
        argv = [self._program, "--unshare-all", "--unshare-user", "--uid", str(BOX_UID), "--gid", str(BOX_UID)]
        argv += ["--die-with-parent", "--new-session", "--as-pid-1", "--hostname", "box", "--clearenv"]
        for name, value in RUNNER_ENVIRONMENT.items():
            argv += ["--setenv", name, value]
        argv += ["--ro-bind", str(root.folder), "/", "--proc", "/proc", "--tmpfs", "/dev"]
        for device in DEVICES:
            argv += ["--dev-bind", str(root.devices / device), f"/dev/{device}"]
        for path in filter(os.path.exists, MASKED):
            covered = ["--tmpfs", path, "--remount-ro", path]
            argv += covered if os.path.isdir(path) else ["--ro-bind", str(root.devices / "null"), path]
        for number, stream in enumerate(("stdin", "stdout", "stderr")):
            argv += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{stream}"]
        argv += ["--symlink", "/proc/self/fd", "/dev/fd", "--remount-ro", "/dev", "--tmpfs", "/sys"]
        for place, folder in cgroup.folders.items() if cgroup else ():
            argv += ["--ro-bind", str(folder), str(MOUNT / place)]
        # To mount /tmp and to clear the bounding set; the runner drops both capabilities before the first program.
        argv += ["--remount-ro", "/sys", "--chdir", "/tmp", "--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]
        return [*argv, "--", *runner_command(keep_sigchld=cgroup is None or not cgroup.counts_cpu, **settings)]


class BubblewrapBox:
    """One box. It ends when it is closed, with its stream, and with the thread that made it (`--die-with-parent`)."""

    def __init__(self, argv: Sequence[str], *, cgroup: Cgroup | None, uid: int) -> None:
        """Start a box (as root: as the user `uid`) and wait until it is ready. Raises SandboxUnavailable or ServiceMissing."""
        self._cgroup = cgroup
        self._closed = False
        ours, theirs = socket.socketpair()
        self._stream = FrameStream(ours)
        with theirs:
            try:
                self._process, info_fd, go_fd = _spawn(argv, theirs, uid)
            except OSError as error:
                self._stream.close()
                raise SandboxUnavailable(f"bubblewrap cannot be started: {error}") from error
        try:
            pid = _child_pid(info_fd)
            if cgroup is not None:
                cgroup.add(pid)
            os.write(go_fd, b"g")
            check_ready(self._stream.receive(time.monotonic() + START_SECONDS))
        except (BoxGone, OSError) as error:
            raise self._start_failure(error) from error
        except BaseException:
            self.close()
            raise
        finally:
            os.close(info_fd)
            os.close(go_fd)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def ask(self, frame: bytes, *, timeout_seconds: float) -> bytes:
        """See `Box.ask`."""
        num_before = self._num_ended_for_memory()
        try:
            return self._stream.ask(frame, timeout_seconds=timeout_seconds)
        except BoxTimeout:
            raise
        except BoxGone as error:
            if self._num_ended_for_memory() > num_before and self._cgroup and self._cgroup.has_met_memory_limit():
                raise BoxOutOfMemory("the kernel ended its processes") from error
            raise

    def _num_ended_for_memory(self) -> int:
        """Processes killed by the kernel so far; 0 without a group, and for a closed box, whose group may be gone."""
        if self._cgroup is None or self._closed:
            return 0
        with contextlib.suppress(OSError):  # another thread is closing it
            return self._cgroup.num_ended_for_memory()
        return 0

    def close(self) -> None:
        """See `Box.close`."""
        if self._closed:
            return
        self._closed = True
        self._stream.close()
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        if self._cgroup is not None:
            self._cgroup.remove()

    def _start_failure(self, error: Exception) -> Exception:
        """Close the box; returns the reason why it did not start, with the remedy if one is known."""
        self._process.kill()
        _, told = self._process.communicate()
        self.close()
        text = told.decode("utf-8", "replace").strip()[-500:]
        if "namespace" in text or "uid map" in text:
            return ServiceMissing(f"bubblewrap may not make user namespaces ({text}): {_remedy()}")
        return SandboxUnavailable(f"bubblewrap started no box: {text or error}")


def _spawn(argv: Sequence[str], stream: socket.socket, uid: int) -> tuple[subprocess.Popen[bytes], int, int]:
    """bubblewrap, paused before its program; a descriptor to read the program's process id from, one to resume it with."""
    info_fd, info_theirs = os.pipe()
    go_theirs, go_fd = os.pipe()
    as_root = os.geteuid() == 0
    try:
        process = subprocess.Popen(
            [argv[0], "--info-fd", str(info_theirs), "--block-fd", str(go_theirs), *argv[1:]],
            stdin=stream.fileno(),
            stdout=stream.fileno(),
            stderr=subprocess.PIPE,
            pass_fds=(info_theirs, go_theirs),
            cwd="/",
            env={},
            start_new_session=True,
            # bubblewrap itself runs as this user: otherwise the box's user would be root outside.
            user=uid if as_root else None,
            group=uid if as_root else None,
            extra_groups=[] if as_root else None,
        )
    except BaseException:
        os.close(info_fd)
        os.close(go_fd)
        raise
    finally:
        os.close(info_theirs)
        os.close(go_theirs)
    return process, info_fd, go_fd


def _child_pid(info_fd: int) -> int:
    """The id of process 1 of the box, in our namespace. Raises BoxGone when bubblewrap ended before it started."""
    told = b""
    while b"}" not in told:
        chunk = os.read(info_fd, 4096)
        if not chunk:
            raise BoxGone("bubblewrap ended at its start")
        told += chunk
    return int(json.loads(told)["child-pid"])


def _remedy() -> str:
    """The commands that allow user namespaces on this machine."""

    def is_off(path: str, off: str) -> bool:
        with contextlib.suppress(OSError):
            return Path(path).read_text(encoding="utf-8").strip() == off
        return False

    commands = [command for path, (off, command) in _SWITCHES.items() if is_off(path, off)]
    if commands:
        return " and ".join(f"`{command}`" for command in commands)
    return "in a container, start it with `--security-opt seccomp=unconfined`, or use the docker backend"
