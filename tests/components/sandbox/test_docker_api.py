"""The client of a daemon: what is left when nobody answers."""

import gc
import socket
import warnings
from pathlib import Path

import pytest

from components.errors import SandboxUnavailable
from components.sandbox.docker_api import DockerApi


def test_an_daemon_that_has_gone_leaves_no_open_socket(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        gc.collect()
        with warnings.catch_warnings(record=True, category=ResourceWarning) as left_open:
            warnings.simplefilter("always")
            with pytest.raises(SandboxUnavailable, match="ConnectionRefusedError"):
                DockerApi(f"unix://{path}")
            gc.collect()
    assert [str(warning.message) for warning in left_open] == []
