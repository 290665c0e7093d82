"""A private daemon's remains are this user's processes and files alone. No daemon is needed."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from components.sandbox.dockerd import Places, _shim_sockets, remove_remains
from tests.other_users import needs_another_user, strangers_process


@needs_another_user
def test_a_process_of_another_user_that_looks_like_a_shim_is_left_alone(tmp_path: Path) -> None:
    places = Places(tmp_path / "state")
    places.folder.mkdir(parents=True)
    with strangers_process("containerd-shim", [str(places.runtime)], {}) as process:
        seen = psutil.Process(process.pid)
        deadline = time.monotonic() + 20
        while seen.cmdline()[:1] != [str(places.runtime)]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not remove_remains(places)
        assert process.poll() is None


def test_a_socket_outside_of_the_shims_folder_is_none_of_theirs() -> None:
    names = (
        "/run/containerd/s/abc",
        "/run/containerd/s/../../../etc/passwd",
        "/run/containerd/s/deeper/abc",
        "/tmp/x",
        "",
    )
    process: Any = SimpleNamespace(net_connections=lambda kind: [SimpleNamespace(laddr=name) for name in names])
    assert _shim_sockets(process) == ["/run/containerd/s/abc"]
