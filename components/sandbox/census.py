"""How many boxes of ours there are on this machine, and how many whose owner died."""

from collections.abc import Iterable

import psutil

from components.artifacts.refs import Frozen
from components.processes import ProcessId
from components.sandbox.box import RUNNER_PATH
from components.sandbox.cgroups import CONTROLLERS, MOUNT
from components.sandbox.daemon import Daemon
from components.sandbox.docker_api import DockerApi
from components.sandbox.reaper import OWNER_LABEL

_GROUPS = "troupe"


class Census(Frozen):
    """Boxes, and what nobody owns any more: the next sandbox removes that."""

    containers: int
    namespaces: int
    """Boxes of bubblewrap."""
    leftovers: int


def census(daemon: Daemon | None) -> Census:
    """Count, and change nothing. `daemon` None means that none runs. Raises SandboxUnavailable when it does not answer."""
    containers = _containers(daemon) if daemon is not None else []
    groups = {folder.name for place in ("", *CONTROLLERS) for folder in (MOUNT / place / _GROUPS).glob("*-*-*-*")}
    owners = [*containers, *(name.rpartition("-")[0] for name in groups)]
    return Census(
        containers=len(containers), namespaces=_namespaces(), leftovers=sum(owner.is_gone() for owner in _known(owners))
    )


def _containers(daemon: Daemon) -> list[str]:
    """The owners of our containers, as their labels name them."""
    with DockerApi(daemon.host) as api, api.call("containers cannot be listed") as docker:
        found = docker.containers(all=True, filters={"label": OWNER_LABEL})
    return [container["Labels"][OWNER_LABEL] for container in found]


def _namespaces() -> int:
    """Each box of bubblewrap has one bwrap outside it that waits for it."""
    processes = [each.info for each in psutil.process_iter(["name", "cmdline"]) if each.info["name"] == "bwrap"]
    return sum(RUNNER_PATH in (info["cmdline"] or ()) for info in processes)


def _known(owners: Iterable[str]) -> list[ProcessId]:
    parsed = [ProcessId.parse(owner) for owner in owners]
    return [owner for owner in parsed if owner is not None]
