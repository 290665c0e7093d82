"""Removes the containers of dead owners. Those of a living owner are never touched."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from components.errors import SandboxUnavailable
from components.machine.process_ids import ProcessId, this_kernel, this_process
from components.sandbox.docker_api import DockerApi, is_missing

OWNER_LABEL = "troupe.owner"
POOL_LABEL = "troupe.pool"
RUN_LABEL = "troupe.run"
HOST_LABEL = "troupe.host"
_log = logging.getLogger(__name__)


def remove_leftovers(api: DockerApi, *, local: bool) -> int:
    """Remove our containers whose owner is gone; returns how many. Raises SandboxUnavailable.

    `local` says that the daemon runs on this machine. Otherwise the containers of other machines stay: whether their owners
    live is unknown.
    """
    leftovers = [found for found in our_containers(api) if _is_leftover(found.get("Labels") or {}, local=local)]
    return sum(remove_container(api, found["Id"]) for found in leftovers)


def remove_own(api: DockerApi, pool: str) -> int:
    """Remove the containers of one pool of this process; returns how many there were, including those already being removed.
    Raises SandboxUnavailable."""
    own = {OWNER_LABEL: str(this_process()), POOL_LABEL: pool}
    there = [found for found in our_containers(api) if own.items() <= (found.get("Labels") or {}).items()]
    for found in there:
        remove_container(api, found["Id"])
    return len(there)


def remove_container(api: DockerApi, container_id: str) -> bool:
    """Remove one container, running or not; returns whether it existed. Raises SandboxUnavailable."""
    try:
        with api.call(f"container {container_id[:12]} cannot be removed") as docker:
            docker.remove_container(container_id, force=True)
    except SandboxUnavailable as error:
        if is_missing(error):
            return False
        raise
    return True


def our_containers(api: DockerApi) -> list[Mapping[str, Any]]:
    """All containers of this project, of living and dead owners. Raises SandboxUnavailable."""
    with api.call("containers cannot be listed") as docker:
        found: list[Mapping[str, Any]] = docker.containers(all=True, filters={"label": OWNER_LABEL})
        return found


class OrphanSweeper:
    """A thread that calls `visit` every minute until it is closed."""

    def __init__(self, visit: Callable[[], object], *, pause_seconds: float = 60.0) -> None:
        self._visit = visit
        self._pause_seconds = pause_seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._walk, name="sandbox-leftovers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after a visit in progress."""
        self._closed.set()
        self._thread.join()

    def _walk(self) -> None:
        while not self._closed.wait(self._pause_seconds):
            try:
                self._visit()
            except SandboxUnavailable as error:
                _log.warning("leftover containers could not be removed: %s", error)


def _is_leftover(labels: Mapping[str, str], *, local: bool) -> bool:
    owner = ProcessId.parse(labels.get(OWNER_LABEL, ""))
    if owner is None:
        return False  # not a label of ours
    return (local or owner.kernel == this_kernel()) and owner.is_gone()
