"""The Prefect server of a process that trains without services."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from components.errors import ServiceMissing
from components.machine.process_ids import process_of
from infra.services import own_prefect
from infra.services.loopback import choose_ports
from infra.services.prefect_server import PrefectService
from infra.services.service import Launch, Ports

HEALTHY = """
import http.server, sys
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer.allow_reuse_address = False
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
"""
VARIABLES = ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_API_KEY", "PREFECT_HOME")


class Quick(PrefectService):
    code = HEALTHY

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        return Launch(command=(sys.executable, "-c", self.code, str(ports["prefect"])))


@pytest.fixture(autouse=True)
def _no_server_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_prefect, "PrefectService", Quick)
    own_prefect._server.cache_clear()


def test_its_clients_are_told_for_the_block_alone_and_a_taken_port_is_exchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, f"my {name}")
    monkeypatch.setenv("TROUPE_HOME", "mine")
    taken: list[socket.socket] = []

    def choose(wanted: Mapping[str, int]) -> dict[str, int]:
        ports = choose_ports(wanted)
        if not taken:
            taken.append(socket.create_server(("127.0.0.1", ports["prefect"])))
        return ports

    monkeypatch.setattr(own_prefect, "choose_ports", choose)
    with own_prefect.own_prefect() as server:
        first = os.environ["PREFECT_API_URL"]
        server.wait(120)
        taken[0].close()
        assert os.environ["PREFECT_API_URL"] not in (first, "my PREFECT_API_URL")
        assert "PREFECT_API_KEY" not in os.environ
        assert os.environ["TROUPE_HOME"] == "mine"
    assert [os.environ[name] for name in VARIABLES] == [f"my {name}" for name in VARIABLES]
    with own_prefect.own_prefect() as again:
        assert again is server
    server._end_with(os.getpid())
    assert not server.is_running


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise SystemExit('a fault of its own')", "ended.*\n.*a fault of its own"),
        ("import time; time.sleep(999)", "0 s"),
    ],
)
def test_one_that_does_not_serve_is_an_error_with_its_log(
    code: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quick, "code", code)
    with own_prefect.own_prefect() as server:
        if "ended" in told:
            psutil.wait_procs([psutil.Process(server._process.pid)] if server.is_running else [], timeout=120)
        with pytest.raises(ServiceMissing, match=told):
            server.wait(0)
    server._end_with(os.getpid())


def test_the_server_ends_with_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    code = (
        "import sys, time\nfrom infra.services.prefect_server import end_with_owner\n"
        "end_with_owner(*sys.argv[1:])\nprint('watching', flush=True)\ntime.sleep(1000)"
    )
    with subprocess.Popen(["sleep", "1000"]) as owner:
        command = [sys.executable, "-c", code, str(process_of(owner.pid)), str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"watching\n"
            assert server.poll() is None
            owner.kill()
            assert server.wait(120) != 0
    assert not folder.exists()
