import socket
import threading
from typing import Any

import pytest

from components.generation.vllm.transport import MAX_ANSWER_BYTES, HttpTransport, ReplicaFailed, RequestRefused, encoded
from tests.components.generation.vllm.wire_server import KEY, wire_server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_get_a_post_and_an_empty_answer() -> None:
    with wire_server() as server:
        transport = HttpTransport(KEY)
        assert transport.call(server.url, "/weight_info", timeout_seconds=5) == {"weight_version": "default"}
        said = transport.call(server.url, "/update_weight_version", encoded({"new_version": "é"}), timeout_seconds=5)
        assert said == {"success": True}
        assert server.version == "é"
        assert transport.call(server.url, "/health", timeout_seconds=5) is None


def test_a_wrong_key_is_refused_and_not_shown() -> None:
    with wire_server() as server:
        transport = HttpTransport("a-guess")
        assert transport.call(server.url, "/health", timeout_seconds=5) is None
        for path in ("/v1/models", "/collective_rpc", "/weight_info"):
            with pytest.raises(RequestRefused, match=r"generation\.vllm\.key_file does not hold") as raised:
                transport.call(server.url, path, encoded({}), timeout_seconds=5)
            assert "a-guess" not in str(raised.value)
        assert server.calls == ["/health"]


@pytest.mark.parametrize(("status", "error"), [(400, RequestRefused), (404, RequestRefused), (429, ReplicaFailed)])
def test_refusals_and_failures_are_told_apart(status: int, error: type[Exception]) -> None:
    with wire_server() as server:
        server.fault = lambda path, body: status
        with pytest.raises(error, match=rf"HTTP {status}.*asked to fail at /health"):
            HttpTransport(KEY).call(server.url, "/health", timeout_seconds=5)


def test_nobody_there_is_a_failure_that_names_the_address() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ReplicaFailed, match=f"{url}: ConnectionRefusedError"):
        HttpTransport(KEY).call(url, "/health", timeout_seconds=5)


def test_a_first_connection_that_breaks_is_a_failure() -> None:
    with wire_server() as server:
        server.fault = lambda path, body: "reset"
        with pytest.raises(ReplicaFailed):
            HttpTransport(KEY).call(server.url, "/health", timeout_seconds=5)


def test_a_connection_that_the_server_closed_in_the_meantime_is_replaced() -> None:
    with wire_server() as server:
        transport, seen = HttpTransport(KEY), []
        transport.call(server.url, "/health", timeout_seconds=5)

        def once(path: str, body: dict[str, Any]) -> Any:
            seen.append(path)
            return "reset" if len(seen) == 1 else None

        server.fault = once
        assert transport.call(server.url, "/health", timeout_seconds=5) is None
        assert len(seen) == 2


def test_a_time_out_is_a_failure_and_is_not_asked_again() -> None:
    with wire_server() as server:
        seen = []
        server.fault = lambda path, body: seen.append(path) or "hang"  # type: ignore[func-returns-value]
        with pytest.raises(ReplicaFailed, match="TimeoutError"):
            HttpTransport(KEY).call(server.url, "/health", timeout_seconds=0.2)
        assert seen == ["/health"]


def test_abandoned_calls_fail_at_once() -> None:
    with wire_server() as server:
        transport, errors = HttpTransport(KEY), []
        transport.call(server.url, "/health", timeout_seconds=5)
        waiting = threading.Event()
        server.fault = lambda path, body: waiting.set() or "hang"  # type: ignore[func-returns-value]

        def ask() -> None:
            try:
                transport.call(server.url, "/health", timeout_seconds=60)
            except ReplicaFailed as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert waiting.wait(5)
        transport.abandon(server.url)
        thread.join(5)
        assert len(errors) == 1
        server.fault = lambda path, body: None
        assert transport.call(server.url, "/health", timeout_seconds=5) is None, "its idle connections are of no use"


def test_what_is_no_json_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{1:")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ReplicaFailed, match="broken JSON"):
            HttpTransport(KEY).call(f"http://127.0.0.1:{listener.getsockname()[1]}", "/health", timeout_seconds=5)
        thread.join(5)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[" + b" " * MAX_ANSWER_BYTES, "more than 16 MiB"),
        (b"[" * 100_000, "nested too deep"),
        (b"[" + b"[]," * 1_100_000 + b"0]", "at most 500000 are read"),
        (b"[" + b"9" * 5000 + b"]", "broken JSON"),
    ],
    ids=["endless", "deep", "many", "digits"],
)
def test_an_answer_that_would_fill_the_memory_is_a_failure_by_name(body: bytes, words: str) -> None:
    with wire_server() as server:
        transport = HttpTransport(KEY)
        transport.call(server.url, "/health", timeout_seconds=5)
        server.fault = lambda path, asked: body
        with pytest.raises(ReplicaFailed, match=words):
            transport.call(server.url, "/weight_info", timeout_seconds=30)
        server.fault = lambda path, asked: None
        assert transport.call(server.url, "/weight_info", timeout_seconds=5) == {"weight_version": "default"}
