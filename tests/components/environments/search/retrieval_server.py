"""A small HTTP server that speaks the retrievers' protocol, or breaks it in the way a test asks for."""

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD: tuple[str, Any] = ("good", None)
Reply = tuple[str, Any]
"""What to do with one request: ("good", None), ("status", 503), ("body", bytes), ("truncated", None), ("cut_chunk", None),
("reset", None), ("slow", seconds), ("drip", seconds), ("huge", MiB), ("packed", (encoding, bytes))."""


class RetrievalServer(ThreadingHTTPServer):
    """Answers the requests by `replies` in order, and well once they are used up."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: list[Reply] = []
        self.requests: list[Any] = []
        self.documents: list[dict[str, Any]] = [
            {"id": "1", "contents": '"Ann"\nAnn lives here.'},
            {"title": "Bob", "text": "Bob lives there."},
            {"id": "3", "contents": '"Eve"\nEve is away.'},
        ]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/retrieve"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: RetrievalServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, **request})
        kind, value = self.server.replies.pop(0) if self.server.replies else GOOD
        getattr(self, f"_{kind}")(value, request)

    def _good(self, value: Any, request: Any) -> None:
        results = [
            [{"document": document, "score": 1.0 / (place + 1)} for place, document in enumerate(self.server.documents)]
            for _ in request["queries"]
        ]
        self._send(200, json.dumps({"result": [found[: request["topk"]] for found in results]}).encode())

    def _status(self, value: int, request: Any) -> None:
        self._send(value, b"<html>sorry</html>")

    def _body(self, value: bytes, request: Any) -> None:
        self._send(200, value)

    def _packed(self, value: tuple[str, bytes], request: Any) -> None:
        encoding, body = value
        self.send_response(200)
        self.send_header("Content-Encoding", encoding)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _slow(self, value: float, request: Any) -> None:
        time.sleep(value)
        self.close_connection = True

    def _drip(self, value: float, request: Any) -> None:
        """A byte now and then, for so long in all."""
        self._send(200, b"", length=10_000)
        self.close_connection = True
        ends = time.monotonic() + value
        while time.monotonic() < ends:
            self.wfile.write(b" ")
            time.sleep(0.02)

    def _huge(self, value: int, request: Any) -> None:
        self._send(200, b"", length=value << 20)
        self.close_connection = True
        for _ in range(value):
            self.wfile.write(b" " * (1 << 20))

    def _truncated(self, value: Any, request: Any) -> None:
        self._send(200, b'{"result": [[', length=500)
        self.close_connection = True

    def _cut_chunk(self, value: Any, request: Any) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b'ff\r\n{"result"')
        self.close_connection = True

    def _reset(self, value: Any, request: Any) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _send(self, status: int, body: bytes, *, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@contextmanager
def running_server() -> Iterator[RetrievalServer]:
    with RetrievalServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
