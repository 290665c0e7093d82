import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from components.generation.vllm.background import Background
from components.generation.vllm.transport import MAX_ANSWER_BYTES, ReplicaFailed, RequestRefused, Transport, encode_json
from tests.components.generation.vllm.wire_server import KEY, wire_server


class Reach:
    """A transport for a test that waits."""

    def __init__(self, background: Background, key: str) -> None:
        self.background, self.transport = background, Transport(key)

    def call(self, *arguments: Any, timeout_seconds: float) -> Any:
        return self.background.run(self.transport.call(*arguments, timeout_seconds=timeout_seconds))


@pytest.fixture
def reach() -> Iterator[Callable[..., Reach]]:
    background, opened = Background("test-transport"), []

    def opening(key: str = KEY) -> Reach:
        opened.append(Reach(background, key))
        return opened[-1]

    yield opening
    for each in opened:
        background.run(each.transport.close())
    background.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_get_a_post_and_an_empty_answer(reach: Callable[..., Reach]) -> None:
    with wire_server() as server:
        transport = reach()
        assert transport.call(server.url, "/weight_info", timeout_seconds=5) == {"weight_version": "default"}
        said = transport.call(
            server.url, "/update_weight_version", encode_json({"new_version": "é"}), timeout_seconds=5
        )
        assert said == {"success": True}
        assert server.version == "é"
        assert transport.call(server.url, "/health", timeout_seconds=5) is None


def test_a_wrong_key_is_refused_and_not_shown(reach: Callable[..., Reach]) -> None:
    with wire_server() as server:
        transport = reach("a-guess")
        assert transport.call(server.url, "/health", timeout_seconds=5) is None
        for path in ("/v1/models", "/collective_rpc", "/weight_info"):
            with pytest.raises(RequestRefused, match=r"generation\.vllm\.key_file does not hold") as raised:
                transport.call(server.url, path, encode_json({}), timeout_seconds=5)
            assert "a-guess" not in str(raised.value)
        assert server.calls == ["/health"]


@pytest.mark.parametrize(("status", "error"), [(400, RequestRefused), (404, RequestRefused), (429, ReplicaFailed)])
def test_refusals_and_failures_are_told_apart(reach: Callable[..., Reach], status: int, error: type[Exception]) -> None:
    with wire_server() as server:
        server.fault = lambda path, body: status
        with pytest.raises(error, match=rf"HTTP {status}.*asked to fail at /health"):
            reach().call(server.url, "/health", timeout_seconds=5)


def test_nobody_there_is_a_failure_that_names_the_address(reach: Callable[..., Reach]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ReplicaFailed, match=f"{url}: ConnectionRefusedError"):
        reach().call(url, "/health", timeout_seconds=5)


def test_a_first_connection_that_breaks_is_a_failure(reach: Callable[..., Reach]) -> None:
    with wire_server() as server:
        server.fault = lambda path, body: "reset"
        with pytest.raises(ReplicaFailed):
            reach().call(server.url, "/health", timeout_seconds=5)


def test_a_connection_that_the_server_closed_in_the_meantime_is_replaced(reach: Callable[..., Reach]) -> None:
    with wire_server() as server:
        transport, seen = reach(), []
        transport.call(server.url, "/health", timeout_seconds=5)

        def once(path: str, body: dict[str, Any]) -> Any:
            seen.append(path)
            return "reset" if len(seen) == 1 else None

        server.fault = once
        assert transport.call(server.url, "/health", timeout_seconds=5) is None
        assert len(seen) == 2


def test_a_time_out_is_a_failure_and_is_not_asked_again(reach: Callable[..., Reach]) -> None:
    with wire_server() as server:
        seen = []
        server.fault = lambda path, body: seen.append(path) or "hang"  # type: ignore[func-returns-value]
        with pytest.raises(ReplicaFailed, match="TimeoutError"):
            reach().call(server.url, "/health", timeout_seconds=0.2)
        assert seen == ["/health"]


def test_a_call_that_is_given_up_ends_at_once_and_leaves_no_connection(reach: Callable[..., Reach]) -> None:
    with wire_server() as server:
        opened, waiting = reach(), threading.Event()
        opened.call(server.url, "/health", timeout_seconds=5)
        server.fault = lambda path, body: waiting.set() or "hang"  # type: ignore[func-returns-value]

        async def has_given_up() -> bool:
            asking = asyncio.create_task(opened.transport.call(server.url, "/health", timeout_seconds=60))
            await asyncio.to_thread(waiting.wait, 5)
            asking.cancel()
            ended, _ = await asyncio.wait([asking], timeout=5)
            return bool(ended)

        assert opened.background.run(has_given_up())
        server.fault = lambda path, body: None
        assert opened.call(server.url, "/health", timeout_seconds=5) is None, "the connection that hangs is of no use"


def test_what_is_no_json_is_a_failure(reach: Callable[..., Reach]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{1:")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ReplicaFailed, match="broken JSON"):
            reach().call(f"http://127.0.0.1:{listener.getsockname()[1]}", "/health", timeout_seconds=5)
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
def test_an_answer_that_would_fill_the_memory_is_a_failure_by_name(
    reach: Callable[..., Reach], body: bytes, words: str
) -> None:
    with wire_server() as server:
        transport = reach()
        transport.call(server.url, "/health", timeout_seconds=5)
        server.fault = lambda path, asked: body
        with pytest.raises(ReplicaFailed, match=words):
            transport.call(server.url, "/weight_info", timeout_seconds=30)
        server.fault = lambda path, asked: None
        assert transport.call(server.url, "/weight_info", timeout_seconds=5) == {"weight_version": "default"}
