"""Who gets past the guard, over HTTP and websockets; and how requests are repeated while the database is busy."""

import base64

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from infra.services import middleware
from infra.services.login import ENTER, PAGE, VERIFY, Login, own_path
from infra.services.middleware import NUM_ATTEMPTS, RepeatingBusyRequests, guard_app

OWN = "http://127.0.0.1:5000"
TALK = "ws://127.0.0.1:5000/talk"
DENIED = (WebSocketDisconnect, WebSocketDenialResponse)


async def page(request: Request) -> PlainTextResponse:
    return PlainTextResponse("mine")


async def talk(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("mine")
    await socket.close()


def client(password: str | None = None, base_url: str = OWN, *, storage_key: str | None = None) -> TestClient:
    routes = [
        Route("/health", page, methods=["GET", "POST"]),
        Route("/page", page, methods=["GET", "POST"]),
        WebSocketRoute("/talk", talk),
    ]
    login = None if password is None else Login(title="Ours", password=password, storage_key=storage_key)
    return TestClient(guard_app(Starlette(routes=routes), login, open_path="/health"), base_url=base_url)


def basic(credentials: str, scheme: str = "Basic") -> dict[str, str]:
    return {"Authorization": f"{scheme} {base64.b64encode(credentials.encode()).decode()}"}


@pytest.mark.parametrize("host", ["127.0.0.1:5000", "localhost:5000", "LOCALHOST", "127.0.0.1:14200"])
def test_this_machines_names_are_answered(host: str) -> None:
    assert client().get("/page", headers={"Host": host}).text == "mine"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:5000", "10.0.0.1", "", "127.0.0.1@evil"]
)
def test_any_other_host_is_refused(host: str) -> None:
    for path in ("/page", "/health"):
        answer = client().get(path, headers={"Host": host})
        assert answer.status_code == 400
        assert "mine" not in answer.text
    with pytest.raises(DENIED), client().websocket_connect(TALK, headers={"Host": host}) as socket:
        socket.receive_text()


@pytest.mark.parametrize("base_url", [OWN, "http://localhost:5000", "http://localhost:14200"])
def test_own_pages_are_answered_also_through_a_tunnel_with_another_port(base_url: str) -> None:
    own = {"Origin": base_url, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    assert client(base_url=base_url).post("/page", headers=own).text == "mine"
    typed = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client(base_url=base_url).get("/page", headers=typed).text == "mine"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "http://localhost:5000"},
        {"Origin": "http://127.0.0.1:5000.evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
@pytest.mark.parametrize("password", [None, "pw"])
def test_pages_of_another_origin_are_refused_even_where_the_browser_adds_the_password(
    headers: dict[str, str], password: str | None
) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        answer = client(password).request(method, "/page", headers={**headers, **basic("troupe:pw")})
        assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (403, False)
    with pytest.raises(DENIED), client(password).websocket_connect(TALK, headers={**headers, **basic("troupe:pw")}):
        pass


def test_a_link_from_elsewhere_may_be_followed_and_a_form_may_not_be_sent() -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client().get("/page", headers=link).text == "mine"
    assert client().post("/page", headers={**link, "Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("troupe:"),
        basic("troupe:p"),
        basic("troupe:pww"),
        basic("pw"),
        basic("other:pw"),
        basic("troupe:pw", scheme="Bearer"),
        {"Authorization": "Basic"},
        {"Authorization": "Basic %%%"},
        {"Authorization": "Basic ü"},
        {"Authorization": "troupe:pw"},
        {"Cookie": "Authorization=Basic dHJvdXBlOnB3"},
    ],
)
def test_without_the_password_only_the_open_path_answers(headers: dict[str, str]) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    asking = client("pw")
    for path in ("/page", "/nowhere", "/health/", "//health", "/page?/health", "/Health"):
        answer = asking.get(path, headers=raw, follow_redirects=False)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="troupe"')
    assert asking.get("/health", headers=raw).text == "mine"
    with pytest.raises(DENIED), asking.websocket_connect(TALK):
        pass


def test_the_password_opens_everything() -> None:
    asking = client("pw")
    assert asking.get("/page", headers=basic("troupe:pw")).text == "mine"
    with asking.websocket_connect(TALK, headers=basic("troupe:pw", scheme="basic")) as socket:
        assert socket.receive_text() == "mine"


CLICK = {"Accept": "text/html,*/*", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_a_first_click_comes_to_the_login_and_from_there_to_the_page() -> None:
    """Where the browser keeps the password, as for MLflow."""
    asking = client("pw")
    login = asking.get("/page?x=1&y", headers=CLICK)
    assert (login.url.path, login.url.params["next"], login.status_code) == (PAGE, "/page?x=1&y", 200)
    assert 'data-next="/page?x=1&amp;y" data-key=""' in login.text
    assert "frame-ancestors 'none'" in login.headers["Content-Security-Policy"]
    assert [asking.post(VERIFY, content=text).status_code for text in ("pw", "wrong", "", "pw" * 5000)] == [
        204,
        *[403] * 3,
    ]
    asked = asking.get(f"{ENTER}?next=/page", headers=CLICK)
    assert (asked.status_code, asked.headers["WWW-Authenticate"]) == (401, 'Basic realm="troupe"')
    assert asking.get(f"{ENTER}?next=/page", headers={**CLICK, **basic("troupe:pw")}).text == "mine"
    assert asking.get("/page", headers={**CLICK, **basic("troupe:wrong")}).url.path == PAGE
    assert asking.post("/page", headers=CLICK).status_code == 401


def test_a_mark_opens_pages_that_ask_for_the_password_themselves_to_one_server_alone() -> None:
    """As Prefect's do: the mark is no password, and another port's is none."""
    asking, other = (client("pw", f"http://127.0.0.1:{port}", storage_key="kept") for port in (4200, 4201))
    login = asking.get("/page", headers=CLICK)
    assert (login.url.path, 'data-key="kept"' in login.text) == (PAGE, True)
    assert asking.get("/page").text == "mine", "a program is answered by the server itself"
    assert asking.post(VERIFY, content="wrong").cookies == {}
    marked = asking.post(VERIFY, content="pw")
    assert "pw" not in marked.headers["Set-Cookie"]
    assert "HttpOnly" in marked.headers["Set-Cookie"]
    assert asking.get("/page", headers=CLICK).text == "mine"
    other.cookies = {name.replace("4200", "4201"): value for name, value in asking.cookies.items()}
    assert other.get("/page", headers=CLICK).url.path == PAGE


@pytest.mark.parametrize("path", [PAGE, VERIFY, ENTER])
def test_foreign_pages_do_not_reach_the_login_either(path: str) -> None:
    asking = client("pw")
    assert asking.post(path, headers={"Origin": "https://evil.example"}, content="pw").status_code == 403
    assert asking.get(path, headers={"Host": "evil.example"}).status_code == 400
    framed = {**CLICK, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}
    assert asking.get(path, headers=framed).status_code == 403


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "", "/a\nb", f"{PAGE}?next=/"],
)
def test_a_link_leads_to_no_other_server(target: str) -> None:
    assert own_path(target) == "/"
    shown = client("pw").get(PAGE, params={"next": target})
    assert 'data-next="/"' in shown.text


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
    monkeypatch.setattr(middleware, "FIRST_DELAY_SECONDS", 0.0)


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
