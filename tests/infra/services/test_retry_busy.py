import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from infra.services import retry_busy
from infra.services.retry_busy import NUM_ATTEMPTS, RepeatingBusyRequests


class DatabaseIsLocked(Exception):
    pass


class Server:
    """Answers 503 as long as `busy_for` lasts, the way Prefect does: by a handler for an exception, after reading the body."""

    def __init__(self, busy_for: int) -> None:
        self.busy_for = busy_for
        self.bodies: list[bytes] = []

    @property
    def app(self) -> RepeatingBusyRequests:
        async def write(request: Request) -> Response:
            self.bodies.append(await request.body())
            assert "handled" not in request.scope, "an attempt sees what another has written into the scope"
            request.scope["handled"] = True
            if len(self.bodies) <= self.busy_for:
                raise DatabaseIsLocked
            return JSONResponse({"written": self.bodies[-1].decode()}, status_code=201)

        async def fail(request: Request) -> Response:
            self.bodies.append(await request.body())
            raise ZeroDivisionError("a bug")

        async def echo(websocket: WebSocket) -> None:
            await websocket.accept()
            await websocket.send_text(await websocket.receive_text())
            await websocket.close()

        async def service_unavailable(request: Request, error: Exception) -> Response:
            busy = isinstance(error, DatabaseIsLocked)
            return JSONResponse({"exception_message": "Service Unavailable"}, status_code=503 if busy else 500)

        return RepeatingBusyRequests(
            Starlette(
                routes=[
                    Route("/write", write, methods=["POST"]),
                    Route("/fail", fail, methods=["POST"]),
                    WebSocketRoute("/echo", echo),
                ],
                exception_handlers={Exception: service_unavailable},
            )
        )


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_busy, "FIRST_DELAY_SECONDS", 0.0)


@pytest.mark.parametrize("busy_for", [0, 1, NUM_ATTEMPTS - 1])
def test_a_request_that_finds_the_database_busy_is_repeated_with_its_body_until_it_is_answered(busy_for: int) -> None:
    server = Server(busy_for)
    response = TestClient(server.app).post("/write", content=b"a task run")
    assert (response.status_code, response.json()) == (201, {"written": "a task run"})
    assert server.bodies == [b"a task run"] * (busy_for + 1)


def test_a_body_in_pieces_is_repeated_whole() -> None:
    server = Server(busy_for=2)
    response = TestClient(server.app).post("/write", content=iter([b"a task", b" ", b"run"]))
    assert response.json() == {"written": "a task run"}
    assert server.bodies == [b"a task run"] * 3


def test_a_database_that_stays_busy_is_reported_to_the_client_who_tries_again_later() -> None:
    server = Server(busy_for=1000)
    response = TestClient(server.app, raise_server_exceptions=False).post("/write", content=b"x")
    assert response.status_code == 503
    assert len(server.bodies) == NUM_ATTEMPTS


def test_another_error_is_answered_once_and_reaches_the_log_of_the_server() -> None:
    server = Server(busy_for=0)
    assert TestClient(server.app, raise_server_exceptions=False).post("/fail").status_code == 500
    with pytest.raises(ZeroDivisionError, match="a bug"):
        TestClient(server.app).post("/fail")
    assert len(server.bodies) == 2


def test_websockets_pass_through() -> None:
    with TestClient(Server(busy_for=0).app).websocket_connect("/echo") as websocket:
        websocket.send_text("an event")
        assert websocket.receive_text() == "an event"
