"""One private daemon for the tests of a session, in a folder whose path is too long for a socket."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.sandbox import daemon as daemons
from components.sandbox.bubblewrap import open_bubblewrap
from components.sandbox.daemon import Daemon, ensure_daemon, stop_daemon
from components.sandbox.pool import BoxPool
from components.sandbox.rootfs import find_or_build_rootfs
from tests.components.sandbox.remains import remains_of

NOWHERE = "unix:///nowhere/docker.sock"


@pytest.fixture(scope="session")
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the file system of the boxes, which takes seconds to build, and the daemon."""
    folder = tmp_path_factory.mktemp("sandbox") / ("long-" * 25)
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def rootfs(state_folder: Path) -> tuple[Path, str]:
    """The file system of the boxes, and its digest."""
    return find_or_build_rootfs(state_folder)


@pytest.fixture(scope="session")
def bubblewrap_pool(rootfs: tuple[Path, str]) -> Iterator[BoxPool]:
    """Two warm boxes for all tests that need no others."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: `apt-get install -y bubblewrap`")
    root, digest = rootfs
    pool = open_bubblewrap(root, num_boxes=2, image_digest=digest)
    yield pool
    pool.close()


@pytest.fixture
def no_machine_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the machine's own daemon out, so that only a private one can be meant."""
    monkeypatch.setattr(daemons, "DEFAULT_HOST", NOWHERE)


@pytest.fixture(scope="session")
def can_start_daemons() -> None:
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        pytest.skip("needs root and dockerd: `apt-get install -y docker.io`")


@pytest.fixture(scope="session")
def _session_daemon(state_folder: Path, can_start_daemons: None) -> Iterator[Daemon]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(daemons, "DEFAULT_HOST", NOWHERE)
        found = ensure_daemon(state_folder)
        yield found
        assert stop_daemon(state_folder)
        assert remains_of(state_folder) == []


@pytest.fixture
def daemon(_session_daemon: Daemon, no_machine_daemon: None) -> Daemon:
    """A running private daemon."""
    return _session_daemon
