"""Finding a Docker daemon: the caller's, the machine's, or a private one that is started if needed."""

import logging
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from components.errors import SandboxUnavailable, ServiceMissing
from components.reporting.progress import NEWS
from components.sandbox.docker_api import DockerApi
from components.sandbox.dockerd import (
    Places,
    dockerd_process,
    lock_daemon,
    log_tail,
    start_dockerd,
    stop_dockerd,
    within,
)

DEFAULT_HOST = "unix:///var/run/docker.sock"
INSTALL = "apt-get install -y docker.io"
_START_SECONDS = 30.0
_PROBE_SECONDS = 5.0
_DYING_SECONDS = 1.0
"""How long the process of a killed daemon may outlive its sockets."""
_POLL_SECONDS = 0.1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A Docker daemon that answered. A private one is started by `ensure_daemon` and stopped by `stop_daemon`."""

    host: str
    private: bool
    version: str

    @property
    def is_local(self) -> bool:
        """Whether its containers run on this machine."""
        return self.host.startswith("unix://")


def running_daemon(state_folder: Path, docker_host: str | None = None) -> Daemon | None:
    """The daemon that `ensure_daemon` would return without starting one. Takes seconds at most, and changes nothing.

    Raises ServiceMissing when the docker SDK is not installed.
    """
    for host in (docker_host,) if docker_host else (DEFAULT_HOST, Places(state_folder).host):
        try:
            return _daemon(host, private=host == Places(state_folder).host)
        except SandboxUnavailable:
            continue
    return None


def ensure_daemon(state_folder: Path, docker_host: str | None = None) -> Daemon:
    """The daemon at `docker_host`; without one the machine's own; without that a private one, started if needed.

    A private daemon outlives this process, until `stop_daemon`. Several processes may call this at once. Raises
    ServiceMissing, with the remedy, when there is none; SandboxUnavailable when one that should answer does not.
    """
    if docker_host:
        return _daemon(docker_host, private=False)
    try:
        return _daemon(DEFAULT_HOST, private=False)
    except SandboxUnavailable as error:
        return _private_daemon(Places(state_folder), str(error))


def revive_daemon(daemon: Daemon, state_folder: Path) -> Daemon:
    """The same daemon, restarted if it is a private one that was killed. Raises SandboxUnavailable."""
    try:
        if daemon.private:
            return _private_daemon(Places(state_folder), f"{daemon.host} does not answer")
        return _daemon(daemon.host, private=False)
    except ServiceMissing as error:
        raise SandboxUnavailable(str(error)) from error


def _private_daemon(places: Places, reason: str) -> Daemon:
    """The private daemon, started unless it runs. `reason` says why there is no other."""
    if dockerd_process(places) is None:
        dockerd_program(reason)  # raises before anything is created
    with lock_daemon(places):  # held until a daemon that is started answers
        return (dockerd_process(places) and _answering(places)) or _start(places, dockerd_program(reason))


def stop_daemon(state_folder: Path) -> bool:
    """Stop the private daemon of `state_folder` with its containers; returns whether it ran. Images stay on disk."""
    places = Places(state_folder)
    if not places.folder.exists():
        return False
    with lock_daemon(places):
        return stop_dockerd(places)


def _daemon(host: str, *, private: bool) -> Daemon:
    with (
        DockerApi(host, timeout_seconds=_PROBE_SECONDS) as api,
        api.call(f"the daemon at {host} has no version") as docker,
    ):
        return Daemon(host=host, private=private, version=str(docker.version()["Version"]))


def dockerd_program(reason: str) -> str:
    """The program of a private daemon. Raises ServiceMissing, with `reason`, when this process cannot start one."""
    program = shutil.which("dockerd") or shutil.which("/usr/sbin/dockerd")
    if program is None:
        raise ServiceMissing(f"no Docker daemon: {reason}; dockerd is not installed: `{INSTALL}` as root")
    if os.geteuid() != 0:
        raise ServiceMissing(
            f"no Docker daemon: {reason}; start Docker (`systemctl start docker`) and join its group "
            "(`usermod -aG docker $USER`), or run as root, or use the backend bubblewrap"
        )
    return program


def _start(places: Places, program: str) -> Daemon:
    _log.warning("starting a private Docker daemon", extra=NEWS)
    start_dockerd(places, program)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return _daemon(places.host, private=True)
        except SandboxUnavailable as error:
            ended, late = dockerd_process(places) is None, time.monotonic() >= deadline
            if ended or late:
                stop_dockerd(places)
            if ended:
                raise ServiceMissing(f"dockerd did not start: it ended. {log_tail(places)}") from error
            if late:
                why = f"no answer in {_START_SECONDS:.0f} s"
                raise SandboxUnavailable(f"dockerd did not start: {why}. {log_tail(places)}") from error
        time.sleep(_POLL_SECONDS)


def _answering(places: Places) -> Daemon | None:
    """The running daemon; None when it is dying. A hung one is not killed: others may have containers in it."""
    try:
        return _daemon(places.host, private=True)
    except SandboxUnavailable as error:
        if within(_DYING_SECONDS, lambda: dockerd_process(places) is None):
            return None
        owner = dockerd_process(places)
        kill = f"`kill -9 {owner.pid}` and try again" if owner else "try again"
        raise SandboxUnavailable(f"{error}; {kill}: a new one is started. {log_tail(places)}") from error
