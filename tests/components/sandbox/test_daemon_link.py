"""What a pool asks its daemon after a box has gone: answered, or not waited for."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from urllib.parse import parse_qs, urlsplit

import pytest

from components.sandbox.container import DaemonLink
from components.sandbox.daemon import Daemon
from components.sandbox.docker_api import DockerApi

OOM = json.dumps({"Type": "container", "Action": "oom"}).encode() + b"\n"


class StandIn(ThreadingUnixStreamServer):
    """A daemon that knows its version, and tells `events` when it has `awoken`."""

    daemon_threads = True

    def __init__(self, path: Path, events: bytes) -> None:
        super().__init__(str(path), Answers)
        self.events, self.awoken = events, threading.Event()
        self.asked: list[dict[str, list[str]]] = []


class Answers(BaseHTTPRequestHandler):
    server: StandIn

    def address_string(self) -> str:
        return "local"

    def log_message(self, format: str, *arguments: object) -> None: ...

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        body = b'{"ApiVersion": "1.44", "MinAPIVersion": "1.24"}'
        if place.path.endswith("/events"):
            self.server.asked.append(parse_qs(place.query))
            if not self.server.awoken.wait(30):
                return
            body = self.server.events
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(BrokenPipeError):  # of a caller whose patience has ended
            self.wfile.write(body)


@contextmanager
def daemon_that_tells(
    events: bytes, folder: Path, *, timeout_seconds: float = 10.0
) -> Iterator[tuple[StandIn, DaemonLink]]:
    path = folder / "docker.sock"
    with StandIn(path, events) as stand_in:
        threading.Thread(target=stand_in.serve_forever, daemon=True).start()
        link = DaemonLink(Daemon(host=f"unix://{path}", private=True, version="0"))
        link.api.close()
        link.api = DockerApi(link.daemon.host, timeout_seconds=timeout_seconds)
        try:
            yield stand_in, link
        finally:
            link.api.close()
            stand_in.awoken.set()
            stand_in.shutdown()


@pytest.mark.parametrize(("events", "ran_out"), [(OOM, True), (b"", False)])
def test_the_daemon_is_asked_for_one_container_and_one_span_of_time(
    tmp_path: Path, events: bytes, ran_out: bool
) -> None:
    with daemon_that_tells(events, tmp_path) as (stand_in, link):
        stand_in.awoken.set()
        since = time.time() - 1
        assert link.ran_out_of_memory("a" * 64, since=since) is ran_out
        (asked,) = stand_in.asked
    assert json.loads(asked["filters"][0]) == {"container": ["a" * 64], "event": ["oom"]}
    assert float(asked["since"][0]) == pytest.approx(since, abs=1e-3)
    assert since < float(asked["until"][0]) <= time.time()


def test_an_daemon_that_stands_still_is_not_waited_for(tmp_path: Path) -> None:
    with daemon_that_tells(OOM, tmp_path, timeout_seconds=0.2) as (stand_in, link):
        assert link.ran_out_of_memory("a" * 64, since=time.time()) is False
        assert len(stand_in.asked) == 1
        assert not stand_in.awoken.is_set()
