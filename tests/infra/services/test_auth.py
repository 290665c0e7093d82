"""Who gets past the guard, over HTTP and websockets."""

import base64

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from infra.services.auth import guarded

OWN = "http://127.0.0.1:5000"
TALK = "ws://127.0.0.1:5000/talk"
DENIED = (WebSocketDisconnect, WebSocketDenialResponse)


async def page(request: Request) -> PlainTextResponse:
    return PlainTextResponse("mine")


async def talk(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("mine")
    await socket.close()


def client(password: str | None = None, base_url: str = OWN) -> TestClient:
    routes = [
        Route("/health", page, methods=["GET", "POST"]),
        Route("/page", page, methods=["GET", "POST"]),
        WebSocketRoute("/talk", talk),
    ]
    return TestClient(guarded(Starlette(routes=routes), password=password, open_path="/health"), base_url=base_url)


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
