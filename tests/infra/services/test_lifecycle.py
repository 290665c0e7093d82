"""Ports that another program takes between the look at them and their use."""

import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from components.errors import ServiceMissing
from infra.services import lifecycle
from infra.services.lifecycle import NUM_STARTS, ports_of, start_all, stop_all
from infra.services.process import lock_home
from infra.services.service import Launch, Ports, Service

SERVER = """
import http.server, sys
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer.allow_reuse_address = False
servers = [http.server.HTTPServer(("127.0.0.1", int(port)), Healthy) for port in sys.argv[1:]]
import threading
for server in servers:
    threading.Thread(target=server.serve_forever).start()
"""


class Upstream(Service):
    name = "upstream"
    ports: Mapping[str, int] = {"first": 0, "second": 0}

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        return Launch(command=(sys.executable, "-c", SERVER, *map(str, ports.values())))


class Downstream(Upstream):
    """It is told the ports of the other one."""

    name = "downstream"
    ports: Mapping[str, int] = {"own": 0}

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        told = {"UPSTREAM": str(sorted(peers["upstream"].values()))}
        return Launch(command=super().launch(home, ports, peers).command, env=told)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """(service, number of its port) to take before its next start, in order."""
    wanted: list[tuple[str, int]] = []
    real = lifecycle.start
    with ExitStack() as held:

        def start(command: Any, **settings: Any) -> Any:
            name = settings["mark"].partition("@")[0]
            for each in [each for each in wanted if each[0] == name][:1]:
                wanted.remove(each)
                held.enter_context(socket.create_server(("127.0.0.1", int(command[3:][each[1]]))))
            return real(command, **settings)

        monkeypatch.setattr(lifecycle, "start", start)
        yield wanted


def list_started(home: Path) -> dict[str, Ports]:
    servers = [Upstream(), Downstream()]
    with lock_home(home), ExitStack() as reserved:
        ports: dict[str, Ports] = {server.name: ports_of(home, server, reserved) for server in servers}
        first = {name: dict(each) for name, each in ports.items()}
        try:
            start_all(home, servers, ports)
            assert all(server.serves(ports[server.name]) for server in servers)
            told = lifecycle.read_record(home, "downstream")
            assert told is not None
            assert told.launch_digest == Downstream().launch(home, ports["downstream"], ports).digest
        finally:
            stop_all(home, {server.name: type(server) for server in servers})
    return {name: each for name, each in ports.items() if dict(each) != first[name]}


def test_a_port_that_was_taken_meanwhile_is_tried_again_with_others_and_told_to_its_peers(
    taken: list[tuple[str, int]], tmp_path: Path
) -> None:
    assert list_started(tmp_path / "free") == {}
    taken += [("upstream", 1), ("upstream", 0), ("downstream", 0)]
    assert set(list_started(tmp_path / "taken")) == {"upstream", "downstream"}
    assert taken == []


def test_ports_that_are_always_taken_are_an_error_that_names_them(taken: list[tuple[str, int]], tmp_path: Path) -> None:
    taken += [("downstream", 0)] * NUM_STARTS
    with pytest.raises(ServiceMissing, match=rf"downstream found a port of .*, at each of {NUM_STARTS} starts"):
        list_started(tmp_path)
