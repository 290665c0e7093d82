"""The numbers of our boxes on this machine, and of boxes whose owner is dead."""

import psutil

from components.frozen import Frozen
from components.machine.process_ids import ProcessId
from components.sandbox.box import RUNNER_PATH
from components.sandbox.cgroups import group_owners
from components.sandbox.daemon import Daemon
from components.sandbox.docker_api import DockerApi
from components.sandbox.reaper import OWNER_LABEL, our_containers


class Census(Frozen):
    """Boxes by backend, and leftovers, which the next sandbox removes."""

    containers: int
    namespaces: int
    """Boxes of bubblewrap."""
    leftovers: int


def census(daemon: Daemon | None) -> Census:
    """Count, and change nothing. `daemon` None means that none runs. Raises SandboxUnavailable when it does not answer."""
    owners: list[ProcessId | None] = []
    if daemon is not None:
        with DockerApi(daemon.host) as api:
            owners = [ProcessId.parse(found["Labels"][OWNER_LABEL]) for found in our_containers(api)]
    leftovers = sum(owner is not None and owner.is_gone() for owner in (*owners, *group_owners().values()))
    return Census(containers=len(owners), namespaces=_namespaces(), leftovers=leftovers)


def _namespaces() -> int:
    """Each box of bubblewrap has one bwrap outside it that waits for it."""
    processes = [each.info for each in psutil.process_iter(["name", "cmdline"]) if each.info["name"] == "bwrap"]
    return sum(RUNNER_PATH in (info["cmdline"] or ()) for info in processes)
