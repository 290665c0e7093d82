"""What stands between a client and the gateway, and breaks once."""

import json
import socket
import struct
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from components.machine.closeable import Closeable

Fault = Literal["", "429", "500", "before", "within"]
"""None; refused with Retry-After, and never passed on; the rest, as a network that breaks, resets the gateway's connection too:
an error in place of the answer, a connection that is closed before the answer, and one within it."""
FAULTS: tuple[Fault, ...] = ("", "429", "500", "before", "within")
_SAID = ("messages", "input", "instructions", "system", "tools")


class FaultProxy(Closeable):
    """Passes requests on to `upstream`, and is at fault at the calls numbered `at`."""

    def __init__(
        self, upstream: str, fault: Fault = "", at: int = 1, note: Callable[[int], None] = lambda number: None
    ):
        self.upstream, self.fault, self.at, self.note = upstream.removeprefix("http://"), fault, at, note
        self.paths: list[str] = []
        """Of calls."""
        self.is_met = not fault
        """Whether the fault has been, if there is to be one."""
        self.said: list[str] = []
        """What each of them said, whatever its other fields are."""
        self._server = _Listener(("127.0.0.1", 0), type("Bound", (_Handler,), {"proxy": self}))
        threading.Thread(target=self._server.serve_forever, daemon=True, name="fault-proxy").start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def num_distinct(self) -> int:
        """How many of the calls said something new."""
        return len(set(self.said))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that is killed resets its connection."""


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, with one of its own to the gateway."""

    protocol_version = "HTTP/1.1"
    proxy: FaultProxy

    def setup(self) -> None:
        super().setup()
        self.gateway = HTTPConnection(self.proxy.upstream)

    def finish(self) -> None:
        self.gateway.close()
        super().finish()

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault: Fault = ""
        if self.command == "POST" and not self.path.endswith("/count_tokens"):
            fault = self.proxy.fault if len(self.proxy.paths) == self.proxy.at else ""
            self.proxy.is_met = self.proxy.is_met or bool(fault)
            self.proxy.paths.append(self.path.partition("?")[0])
            given = json.loads(body)
            self.proxy.said.append(json.dumps([given.get(name) for name in _SAID], sort_keys=True))
            self.proxy.note(len(self.proxy.paths))
        if fault == "429":
            self._send(
                429, b'{"error": {"message": "injected", "type": "rate_limit_error"}}', also={"Retry-After": "1"}
            )
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        self.gateway.request(self.command, self.path, body, headers)
        if fault == "before":
            threading.Event().wait(0.05)
            self._break()
            return
        answer = self.gateway.getresponse()
        content = answer.read()
        kind = answer.headers.get("Content-Type", "")
        if fault == "500":
            self._break()
            self._send(500, b'{"error": {"message": "injected", "type": "server_error"}}')
        elif fault == "within":
            self._break()
            self._send(answer.status, content, kind, num_sent=len(content) // 2)
        else:
            self._send(answer.status, content, kind)

    def _break(self) -> None:
        """Reset the gateway's connection, and close the client's after what is sent."""
        assert self.gateway.sock is not None
        self.gateway.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.gateway.close()
        self.close_connection = True

    def _send(
        self,
        status: int,
        content: bytes,
        kind: str = "application/json",
        *,
        num_sent: int | None = None,
        also: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(also or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[:num_sent])

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
