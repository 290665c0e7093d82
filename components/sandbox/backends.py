"""Opens a sandbox with a backend that works here. Where none does, programs do not run: the error names the remedies."""

import logging
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal

from components.errors import SandboxUnavailable, ServiceMissing
from components.frozen import Frozen
from components.sandbox.base import Backend
from components.sandbox.box import BoxLimits
from components.sandbox.bubblewrap import open_bubblewrap
from components.sandbox.container import check_limits_kept, open_containers
from components.sandbox.daemon import INSTALL, dockerd_program, ensure_daemon, running_daemon
from components.sandbox.pool import BoxPool
from components.sandbox.rootfs import find_or_build_rootfs
from components.schema import Limits

BOXES_PER_CORE = 2
FALLBACK_FILE = "fallback-said"
"""In the state folder: that the usual backend does not work was said."""
_REMEDIES: dict[Backend, str] = {
    "docker": f"as root `{INSTALL}`; a private daemon then starts by itself",
    "bubblewrap": "as root `apt-get install -y bubblewrap`",
}
_log = logging.getLogger(__name__)


class Probe(Frozen):
    """Whether a backend works on this machine, with the remedy if it does not."""

    works: bool
    detail: str
    remedy: str


def open_sandbox(
    backend: Literal["auto", "docker", "bubblewrap"],
    *,
    state_folder: Path,
    num_boxes: int | None = None,
    docker_host: str | None = None,
    limits: Limits | None = None,
    run_label: str = "",
) -> BoxPool:
    """A sandbox whose first box is ready. `auto` takes docker, then bubblewrap.

    `state_folder` holds the file system of the boxes and the files of a private daemon. `num_boxes` None means two per core.
    `limits` are the largest of any program, by default `Limits()`: a box is a little larger. `run_label` is a label of the
    containers for people.

    Raises ServiceMissing with the install commands when no backend can work here, SandboxUnavailable when the chosen one
    should work and does not.
    """
    state_folder.mkdir(parents=True, exist_ok=True)
    num_boxes = num_boxes or BOXES_PER_CORE * len(os.sched_getaffinity(0))

    def docker() -> BoxPool:
        daemon = ensure_daemon(state_folder, docker_host)
        pool = open_containers(
            daemon, num_boxes=num_boxes, state_folder=state_folder, limits=limits, run_label=run_label
        )
        pool.wait_ready()
        return pool

    def bubblewrap() -> BoxPool:
        rootfs, digest = find_or_build_rootfs(state_folder)
        return open_bubblewrap(
            rootfs, num_boxes=num_boxes, image_digest=digest, limits=BoxLimits.around(limits or Limits())
        )

    openers: dict[Backend, Callable[[], BoxPool]] = {"docker": docker, "bubblewrap": bubblewrap}
    return _first(openers, state_folder) if backend == "auto" else openers[backend]()


def probe(backend: Backend, *, state_folder: Path, docker_host: str | None = None) -> Probe:
    """Whether `backend` works here. Starts no daemon; runs a program with bubblewrap. Takes seconds at most."""
    try:
        is_docker = backend == "docker"
        detail = _probe_docker(state_folder, docker_host) if is_docker else _probe_bubblewrap(state_folder)
        return Probe(works=True, detail=detail, remedy="")
    except (ServiceMissing, SandboxUnavailable) as error:
        return Probe(works=False, detail=str(error), remedy=_REMEDIES[backend])


def _first(backends: dict[Backend, Callable[[], BoxPool]], state_folder: Path) -> BoxPool:
    """The first backend that opens. Raises ServiceMissing with the reason and the remedy of each.

    That another one is used than usual is said once, until the usual one works again; `troupe doctor` always says it.
    """
    reasons: dict[Backend, str] = {}
    for name, open_it in backends.items():
        try:
            pool = open_it()
        except (ServiceMissing, SandboxUnavailable) as error:
            reasons[name] = str(error)
            continue
        said = state_folder / FALLBACK_FILE
        if not reasons:
            said.unlink(missing_ok=True)
        elif not said.exists():
            for skipped, reason in reasons.items():
                _log.warning("sandbox: %s instead of %s (said once; see `troupe doctor`): %s", name, skipped, reason)
            said.touch()
        return pool
    told = "\n".join(f"{name}: {reason}; {_REMEDIES[name]}" for name, reason in reasons.items())
    raise ServiceMissing(f"no sandbox works here, and programs never run outside one\n{told}")


def _probe_docker(state_folder: Path, docker_host: str | None) -> str:
    daemon = running_daemon(state_folder, docker_host)
    if daemon is None:
        if docker_host:
            raise SandboxUnavailable(f"the daemon at {docker_host} does not answer")
        return f"not running; `{dockerd_program('none runs')}` is started with the first sandbox"
    check_limits_kept(daemon)
    return f"version {daemon.version} at {daemon.host}" + (", private" if daemon.private else "")


def _probe_bubblewrap(state_folder: Path) -> str:
    state_folder.mkdir(parents=True, exist_ok=True)
    rootfs, digest = find_or_build_rootfs(state_folder)
    with closing(open_bubblewrap(rootfs, num_boxes=1, image_digest=digest)) as pool:
        result = pool.run("print(6 * 7)")
        if result.stdout != "42\n":
            raise SandboxUnavailable(f"a program ended with {result.status}: {result.detail}")
        limits = pool.description.box_limits
        told = ", ".join(f"{name} {limits[name]}" for name in ("memory", "user", "root files"))
        return f"runs a program; limits kept by {limits['kept by']}; {told}"
