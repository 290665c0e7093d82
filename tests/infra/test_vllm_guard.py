"""The guard of a vLLM server, before an application with the kinds of routes that vLLM has."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, WebSocket
from starlette.middleware.cors import CORSMiddleware
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

FOLDER = Path(__file__).resolve().parents[2] / "infra" / "vllm"
KEY = "0123456789abcdef0123456789abcdef"
ROUTES = ("/v1/models", "/collective_rpc", "/metrics", "/openapi.json", "/docs", "/update_weight_version", "/nowhere")
ALMOST_HEALTH = ("/health/", "//health", "/health/../collective_rpc", "/HEALTH", "/health%2F..%2Fcollective_rpc", "/")


def guard() -> Any:
    """The module; it is no package's."""
    spec = importlib.util.spec_from_file_location("troupe_guard", FOLDER / "troupe_guard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Of an application built in vLLM's order: CORS for everybody, then the guard."""
    (tmp_path / "key").write_text(KEY + "\n")
    monkeypatch.setenv("TROUPE_VLLM_KEY_FILE", str(tmp_path / "key"))
    app, metrics = FastAPI(), FastAPI()
    app.mount("/metrics", metrics)

    @metrics.get("/")
    @app.get("/health")
    @app.get("/v1/models")
    @app.post("/collective_rpc")
    @app.post("/update_weight_version")
    def reached() -> str:
        return "reached"

    @app.websocket("/v1/realtime")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("reached")

    app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    app.add_middleware(guard().Guard)
    return TestClient(app)


@pytest.mark.parametrize("path", [*ROUTES, *ALMOST_HEALTH])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_nothing_is_reached_without_the_key(client: TestClient, method: str, path: str) -> None:
    for shown in ("", "Bearer ", f"Bearer {KEY[:-1]}", f"Bearer {KEY}x", KEY, f"Basic {KEY}", f"bearer {KEY}"):
        answer = client.request(method, path, headers={"Authorization": shown} if shown else {})
        assert answer.status_code == 401, (shown, answer.text)
        assert "reached" not in answer.text


def test_two_keys_are_none(client: TestClient) -> None:
    both = [("Authorization", "Bearer other"), ("Authorization", f"Bearer {KEY}")]
    assert client.get("/v1/models", headers=both).status_code == 401


def test_the_key_opens_every_route(client: TestClient) -> None:
    shown = {"Authorization": f"Bearer {KEY}"}
    assert client.get("/v1/models", headers=shown).json() == "reached"
    assert client.get("/metrics/", headers=shown).json() == "reached"
    assert client.post("/collective_rpc", headers=shown).json() == "reached"
    with client.websocket_connect("/v1/realtime", headers=shown) as socket:
        assert socket.receive_text() == "reached"


def test_health_is_open_and_no_more_than_that(client: TestClient) -> None:
    assert client.get("/health").json() == "reached"
    assert client.post("/health").status_code == 401


def test_a_websocket_without_the_key_is_closed(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/v1/realtime"):
        pass


def test_a_web_page_learns_nothing(client: TestClient) -> None:
    asked = {"Origin": "http://page.example", "Access-Control-Request-Method": "POST"}
    for answer in (client.options("/collective_rpc", headers=asked), client.get("/v1/models", headers=asked)):
        assert answer.status_code == 401
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("key", "why"), [(None, "set TROUPE_VLLM_KEY_FILE"), ("short", "at least 32"), ("\u00e9" * 40, "printable ASCII")]
)
def test_no_server_starts_without_a_key(key: str | None, why: str, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"}
    if key is not None:
        (tmp_path / "key").write_text(key, encoding="utf-8")
        environment["TROUPE_VLLM_KEY_FILE"] = str(tmp_path / "key")
    command = [sys.executable, "-S", str(FOLDER / "serve.py"), "--model", "m"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert why in done.stderr
    assert key is None or key not in done.stderr
