"""One private engine for the tests of a session, in a folder whose path is too long for a socket."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.sandbox import engine as engines
from components.sandbox.bubblewrap import open_bubblewrap
from components.sandbox.engine import Engine, ensure_engine, stop_engine
from components.sandbox.pool import BoxPool
from components.sandbox.rootfs import cached_rootfs
from tests.components.sandbox.remains import remains_of

NOWHERE = "unix:///nowhere/docker.sock"


@pytest.fixture(scope="session")
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keeps the file system of the boxes, which takes seconds to build, and the engine."""
    folder = tmp_path_factory.mktemp("sandbox") / ("long-" * 25)
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def rootfs(state_folder: Path) -> tuple[Path, str]:
    """The file system of the boxes, and its digest."""
    return cached_rootfs(state_folder)


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
def no_machine_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the machine's own engine out, so that only a private one can be meant."""
    monkeypatch.setattr(engines, "DEFAULT_HOST", NOWHERE)


@pytest.fixture(scope="session")
def can_start_engines() -> None:
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        pytest.skip("needs root and dockerd: `apt-get install -y docker.io`")


@pytest.fixture(scope="session")
def _session_engine(state_folder: Path, can_start_engines: None) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "DEFAULT_HOST", NOWHERE)
        found = ensure_engine(state_folder)
        yield found
        assert stop_engine(state_folder)
        assert remains_of(state_folder) == []


@pytest.fixture
def engine(_session_engine: Engine, no_machine_engine: None) -> Engine:
    """A running private engine."""
    return _session_engine
