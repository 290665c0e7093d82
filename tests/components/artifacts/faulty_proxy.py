"""An HTTP proxy that misbehaves on request, between a client and a real S3 server."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Fault = (
    Literal["answer_500", "answer_503", "answer_409", "refuse", "lose_answer", "cut_body", "ignore_condition"] | None
)


class FaultyProxy(ThreadingHTTPServer):
    """Calls `fault(method, path)` before each request, and `tell` after it. `requests` records all requests."""

    daemon_threads = True

    def __init__(self, upstream_port: int, *, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((host, port), _Handler)
        self.upstream = host, upstream_port
        self.tell: Callable[[str, str, str, int], None] = lambda client, method, path, status: None
        self.fault: Callable[[str, str], Fault] = lambda method, path: None
        self.requests: list[tuple[str, str]] = []

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fail_first(self, fault: Fault, *, method: str, times: int = 1) -> None:
        """Return `fault` for the first requests with this method, then forward normally."""
        left, lock = [times], threading.Lock()

        def choose(asked: str, path: str) -> Fault:
            with lock:
                if asked != method or left[0] == 0:
                    return None
                left[0] -= 1
                return fault

        self.fault = choose

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up, which is part of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path))
        fault = self.server.fault(self.command, self.path)
        if fault == "answer_503":
            self._answer(503, b"<Error><Code>SlowDown</Code><Message>slow down</Message></Error>", {})
        elif fault == "answer_500":
            self._answer(500, b"<Error><Code>InternalError</Code><Message>no</Message></Error>", {})
        elif fault == "answer_409":
            self._answer(
                409, b"<Error><Code>ConditionalRequestConflict</Code><Message>a rival is writing</Message></Error>", {}
            )
        elif fault == "refuse":
            self._hang_up()
        else:
            status, content, headers = self._forward(body, ignore_condition=fault == "ignore_condition")
            if fault == "lose_answer":
                self._hang_up()
            else:
                self._answer(status, content, headers, cut=fault == "cut_body")

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = do_PATCH = _serve

    def _forward(self, body: bytes, *, ignore_condition: bool) -> tuple[int, bytes, dict[str, str]]:
        dropped = {"expect", "connection"} | ({"if-none-match"} if ignore_condition else set())
        headers = {name: value for name, value in self.headers.items() if name.lower() not in dropped}
        upstream = http.client.HTTPConnection(*self.server.upstream, timeout=30)
        try:
            upstream.request(self.command, self.path, body=body, headers=headers)
            answer = upstream.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        except OSError:
            return 503, b"<Error><Code>ServiceUnavailable</Code><Message>away</Message></Error>", {}
        finally:
            upstream.close()

    def _answer(self, status: int, content: bytes, headers: dict[str, str], *, cut: bool = False) -> None:
        self.server.tell(self.client_address[0], self.command, self.path, status)
        self.send_response_only(status)
        length = headers.pop("Content-Length", str(len(content)))
        for name, value in headers.items():
            if name.lower() not in {"transfer-encoding", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *arguments: Any) -> None:
        """Log nothing."""


@contextmanager
def faulty_proxy(upstream_port: int) -> Iterator[FaultyProxy]:
    """A running proxy, stopped at the end of the block."""
    proxy = FaultyProxy(upstream_port)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()
