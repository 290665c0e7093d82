"""Cleaning up after dead owners of either backend at once."""

from pathlib import Path

from components.sandbox import cgroups
from components.sandbox.daemon import running_daemon
from components.sandbox.docker_api import DockerApi
from components.sandbox.dockerd import Places, dockerd_process, lock_daemon, remove_remains
from components.sandbox.reaper import remove_leftovers
from components.sandbox.rootfs import remove_unused_rootfs


def clean_leftovers(state_folder: Path, docker_host: str | None = None) -> int:
    """Remove what dead owners left of either backend: containers, a killed private daemon, control groups, unfinished file
    systems. Returns how many things there were. Nothing of a living owner is touched."""
    removed = cgroups.remove_leftovers() + remove_unused_rootfs(state_folder) + clean_dead_daemon(state_folder)
    daemon = running_daemon(state_folder, docker_host)
    if daemon is not None:
        with DockerApi(daemon.host) as api:
            removed += remove_leftovers(api, local=daemon.is_local)
    return removed


def clean_dead_daemon(state_folder: Path) -> bool:
    """Remove what a killed private daemon left (processes, mounts, control groups, sockets); returns whether there was any.

    A running daemon is left alone.
    """
    places = Places(state_folder)
    if not places.folder.exists():
        return False
    with lock_daemon(places):
        return dockerd_process(places) is None and remove_remains(places)
