"""Boxes that are containers: the runner as process 1, spoken to over the attached standard streams."""

import contextlib
import itertools
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError, SandboxUnavailable
from components.sandbox.base import SandboxDescription
from components.sandbox.box import BOX_UID, Box, BoxGone, BoxLimits, BoxOutOfMemory, BoxTimeout
from components.sandbox.container_config import box_labels, check_daemon, container_config, has_own_users
from components.sandbox.daemon import Daemon, revive_daemon
from components.sandbox.docker_api import DockerApi
from components.sandbox.image import ensure_image
from components.sandbox.pool import BoxPool
from components.sandbox.protocol import check_ready
from components.sandbox.reaper import OrphanSweeper, remove_container, remove_leftovers, remove_own
from components.sandbox.stream import AttachedStream
from components.sandbox.users import in_words, next_box_uid
from components.schema import Limits

_READY_SECONDS = 20.0
_CLOSE_SECONDS = 5.0
_SILENCE_SECONDS = 30.0
_ATTACH = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
_pool_numbers = itertools.count()
_log = logging.getLogger(__name__)


class DaemonLink:
    """A client of a daemon. After a removal without an answer it requests none for 30 s, so that closing many boxes of a hung
    daemon takes as long as closing one."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.api = DockerApi(daemon.host)
        self._silent_until = 0.0

    def remove(self, container_id: str) -> None:
        """Remove a container. One that the daemon does not remove now ends with its input, or is removed by the reaper."""
        if time.monotonic() < self._silent_until:
            return
        try:
            remove_container(self.api, container_id)
        except SandboxUnavailable as error:
            self._silent_until = time.monotonic() + _SILENCE_SECONDS
            _log.warning("%s", error)

    def ran_out_of_memory(self, container_id: str, *, since: float) -> bool:
        """Whether the daemon reports that a container ran out of memory since this time. False if it does not answer."""
        if time.monotonic() < self._silent_until:
            return False
        filters = json.dumps({"container": [container_id], "event": ["oom"]})
        asked = {"since": f"{since:.3f}", "until": f"{time.time():.3f}", "filters": filters}
        with contextlib.suppress(SandboxUnavailable), self.api.call("events cannot be listed") as docker:
            # Not docker.events(), which has no timeout for a hung daemon.
            place = f"{docker.base_url}/v{docker.api_version}/events"
            return bool(docker.get(place, params=asked, timeout=docker.timeout).text.strip())
        return False

    def remove_own(self, pool: str) -> None:
        """Remove the remaining containers of one pool, and wait until they are gone."""
        deadline = time.monotonic() + _CLOSE_SECONDS
        with contextlib.suppress(SandboxUnavailable):  # then the reaper removes them later
            while time.monotonic() < max(deadline, self._silent_until) and remove_own(self.api, pool):
                time.sleep(0.05)


class ContainerBox:
    """A `Box` that is one container. Raises SandboxUnavailable when it does not become ready."""

    def __init__(self, link: DaemonLink, config: dict[str, Any]) -> None:
        self._link = link
        self._closed = threading.Lock()
        self._stream: AttachedStream | None = None
        with link.api.call("a container cannot be made") as docker:
            self._id: str = docker.create_container_from_config(config)["Id"]
        try:
            with link.api.call("a container does not start") as docker:
                # Attached before the start, so that no output of the runner is missed.
                attached = docker.attach_socket(self._id, params=_ATTACH)
                stream = self._stream = AttachedStream(attached, name=f"container {self._id[:12]}")
                docker.start(self._id)
            check_ready(stream.receive(time.monotonic() + _READY_SECONDS))
        except BoxGone as error:
            self.close()
            told = stream.complaint.decode(errors="replace")
            raise SandboxUnavailable(f"a container did not become ready: {error} {told}".rstrip()) from error
        except BaseException:
            self.close()
            raise

    def ask(self, frame: bytes, *, timeout_seconds: float) -> bytes:
        """See `Box.ask`. The daemon's API is not called unless the box is gone."""
        started = time.time()
        assert self._stream is not None
        try:
            return self._stream.ask(frame, timeout_seconds=timeout_seconds)
        except BoxTimeout:
            raise
        except BoxGone as error:
            if self._link.ran_out_of_memory(self._id, since=started):
                raise BoxOutOfMemory(str(error)) from error
            raise

    def close(self) -> None:
        """See `Box.close`."""
        if not self._closed.acquire(blocking=False):
            return
        if self._stream is not None:
            self._stream.close()
        self._link.remove(self._id)


class _Containers:
    """Makes the boxes of one pool, and reconnects to a daemon that was restarted."""

    def __init__(self, daemon: Daemon, *, state_folder: Path, limits: BoxLimits, run_label: str) -> None:
        self._state_folder = state_folder
        self._limits = limits
        self._run_label = run_label
        self._pool = str(next(_pool_numbers))
        self._daemon = daemon
        self._lock = threading.Lock()
        self._link: DaemonLink | None = DaemonLink(daemon)
        self._tag, self.image_digest = ensure_image(self._link.api, state_folder)
        with self._link.api.call("the daemon does not describe itself") as docker:
            self.own_users = has_own_users(docker.info())
        self.sweep()
        self._patrol = OrphanSweeper(self.sweep)

    def make(self) -> Box:
        """A new box. Raises SandboxUnavailable; the next call then reconnects to the daemon."""
        with self._lock:
            link = self._link = self._link or self._link_again()
        config = container_config(
            self._tag,
            limits=self._limits,
            labels=box_labels(pool=self._pool, run_label=self._run_label),
            uid=next_box_uid() if self.own_users else BOX_UID,
        )
        try:
            return ContainerBox(link, config)
        except SandboxUnavailable:
            with self._lock:
                if self._link is link:
                    self._link = None
            raise

    def sweep(self) -> None:
        """Remove the containers of dead owners."""
        link = self._link
        if link is not None and (num_removed := remove_leftovers(link.api, local=link.daemon.is_local)):
            _log.warning("removed %d containers whose owners are gone", num_removed)

    def close(self) -> None:
        """Remove the remaining containers of this pool."""
        self._patrol.close()
        link, self._link = self._link, None
        if link is not None:
            link.remove_own(self._pool)
            link.api.close()

    def _link_again(self) -> DaemonLink:
        self._daemon = revive_daemon(self._daemon, self._state_folder)
        link = DaemonLink(self._daemon)
        _, digest = ensure_image(link.api, self._state_folder)
        if digest != self.image_digest:
            raise ConfigurationError("sandbox: its image changed while it was open; open it again")
        return link


def check_limits_kept(daemon: Daemon) -> None:
    """Raise ServiceMissing unless `daemon` enforces all limits; SandboxUnavailable when it does not answer."""
    with DockerApi(daemon.host) as api, api.call(f"the daemon at {daemon.host} does not describe itself") as docker:
        check_daemon(docker.info())


def open_containers(
    daemon: Daemon,
    *,
    num_boxes: int,
    state_folder: Path,
    limits: Limits | None = None,
    run_label: str = "",
) -> BoxPool:
    """A pool of containers in `daemon`, with our own image. Containers of dead owners are removed.

    `limits` are the largest of any program; None means `Limits()`. Raises SandboxUnavailable when the daemon does not answer,
    ServiceMissing when it does not enforce the limits.
    """
    box_limits = BoxLimits.around(limits or Limits())
    check_limits_kept(daemon)
    containers = _Containers(daemon, state_folder=state_folder, limits=box_limits, run_label=run_label)
    description = SandboxDescription(
        backend="docker",
        image_digest=containers.image_digest,
        num_boxes=num_boxes,
        box_limits={**box_limits.in_words(), "user": in_words(own=containers.own_users), "kept by": "control groups"},
    )
    return BoxPool(containers.make, description=description, close_also=containers.close)
