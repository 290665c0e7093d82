"""The configuration of a container for the Docker API, and whether a daemon can enforce it."""

import socket
from collections.abc import Mapping
from typing import Any

from components.errors import ServiceMissing
from components.machine.process_ids import this_process
from components.sandbox.box import BOX_UID, MASKED, RUNNER_COMMAND, RUNNER_ENVIRONMENT, BoxLimits
from components.sandbox.reaper import HOST_LABEL, OWNER_LABEL, POOL_LABEL, RUN_LABEL

_NEEDED = {"MemoryLimit": "memory limits", "PidsLimit": "process limits", "CpuCfsQuota": "CPU limits"}
_MOUNT_FLAGS = "nosuid,nodev,noexec"


def box_labels(*, pool: str, run_label: str) -> dict[str, str]:
    """The labels of a container: its owner, for the removal of leftovers, and for people."""
    return {
        OWNER_LABEL: str(this_process()),
        HOST_LABEL: socket.gethostname(),
        POOL_LABEL: pool,
        RUN_LABEL: run_label,
    }


def container_config(image: str, *, limits: BoxLimits, labels: Mapping[str, str], uid: int = BOX_UID) -> dict[str, Any]:
    """The body of `POST /containers/create` for one box, whose programs run as the user and the group `uid`.

    Docker's own seccomp profile stays on, and the runner adds its filter. /dev/mqueue is covered because Docker leaves it
    writable in a read-only container, /dev/pts because all boxes and the host share one limit of terminals.
    """
    return {
        "Image": image,
        "Entrypoint": list(RUNNER_COMMAND),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in RUNNER_ENVIRONMENT.items()],
        "User": f"{uid}:{uid}",
        "WorkingDir": "/tmp",
        "Hostname": "box",
        "Labels": dict(labels),
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,  # the runner ends when its owner does
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(limits),
    }


def check_daemon(info: Mapping[str, Any]) -> None:
    """Raise ServiceMissing unless a daemon with this `info` enforces all limits: some ignore them."""
    missing = [words for key, words in _NEEDED.items() if not info.get(key)]
    if not any(str(option).startswith("name=seccomp") for option in info.get("SecurityOptions") or ()):
        missing.append("a seccomp profile")
    if info.get("OSType") != "linux":
        missing.append("Linux containers")
    if missing:
        raise ServiceMissing(
            f"the Docker daemon does not keep {', '.join(missing)} here; run it as root (not rootless on version 1 of "
            "control groups), or use the backend bubblewrap"
        )


def has_own_users(info: Mapping[str, Any]) -> bool:
    """Whether a daemon with this `info` runs containers as users of its machine, so that each box can have its own user.
    Daemons in a user namespace have too few users."""
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    return not any(option.startswith(("name=userns", "name=rootless")) for option in options)


def _host_config(limits: BoxLimits) -> dict[str, Any]:
    memory_bytes = limits.memory_mib << 20
    tmp_bytes = limits.tmp_mib << 20
    return {
        "NetworkMode": "none",
        "IpcMode": "none",
        "CgroupnsMode": "private",
        "ReadonlyRootfs": True,
        "AutoRemove": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,
        "PidsLimit": limits.num_processes,
        "NanoCpus": int(limits.num_cpus * 1e9),
        "MaskedPaths": [*MASKED, "/sys/firmware", "/sys/devices/virtual/powercap"],
        "OomScoreAdj": 500,
        "LogConfig": {"Type": "none"},
        "Tmpfs": {
            "/tmp": f"rw,{_MOUNT_FLAGS},size={tmp_bytes},mode=1777,nr_inodes={limits.num_tmp_files}",
            "/dev/pts": f"ro,{_MOUNT_FLAGS},size=4k,nr_inodes=1",
            "/dev/mqueue": f"ro,{_MOUNT_FLAGS},size=4k,nr_inodes=1",
        },
        "Ulimits": [
            {"Name": "core", "Soft": 1, "Hard": 1},  # see `harden`
            {"Name": "nofile", "Soft": 256, "Hard": 256},
            {"Name": "fsize", "Soft": tmp_bytes, "Hard": tmp_bytes},
        ],
    }
