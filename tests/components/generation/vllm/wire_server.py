"""A small HTTP server that speaks vLLM's routes: it holds "weights" by the bytes on disk, and fails as a test asks.

Its log-probabilities are a function of the weights that it really holds, whatever it says: `logprob_of` is the trainer's side.
"""

import asyncio
import hashlib
import importlib.util
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

END = 1
KEY = "wire-3f9c0e7a51d24b86a0e1c5d97b42f860"
"""What every route but /health asks for, as the guard of a real server does."""


def read_server_module(name: str) -> ModuleType:
    """A file of `infra/vllm`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[4] / "infra" / "vllm" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


WEIGHTS = read_server_module("troupe_weights")


def bytes_of(folder: Path) -> str:
    """What stands for the tensors in `folder`."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def logprob_of(weights: str, token: int, position: int) -> float:
    """Below 0, and another number for other weights."""
    noise = hashlib.blake2b(f"{weights}/{token}/{position}".encode(), digest_size=4).digest()
    return -0.1 - int.from_bytes(noise, "big") / 2**32


class VllmWireServer(ThreadingHTTPServer):
    """Answers as vLLM 0.32 does. `fault(path, body)` may return an HTTP status, a whole body, "reset", "hang" or
    None for none."""

    daemon_threads = True

    def __init__(
        self, model: str = "team", *, host: str = "127.0.0.1", port: int = 0, max_model_tokens: int = 64
    ) -> None:
        super().__init__((host, port), _Handler)
        self.model = model
        self.max_model_tokens = max_model_tokens
        self.version = "default"
        self.weights = "as started"
        self.adapters: dict[str, tuple[str, str]] = {}
        self.has_extension = True
        self.repairs_head = True
        self.clears_cache = True
        self.paused = False
        self.calls: list[str] = []
        self.generated: list[dict[str, Any]] = []
        self.fault: Callable[[str, dict[str, Any]], Any] = lambda path, body: None
        self.seconds_a_request = 0.0
        self.healthy = True
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.restart()

    def restart(self) -> None:
        """Forget everything, as a process that was started anew."""
        self.version, self.weights, self.adapters = "default", "as started", {}
        self.middleware = WEIGHTS.Weights(self._reply)

    async def _reply(self, scope: Any, receive: Any, send: Any) -> None:
        """vLLM's own routes, below the middleware."""
        path, body = scope["path"], json.loads((await receive())["body"])
        with self.lock:
            self.calls.append(path)
        # The handler has asked for what a client sent itself.
        fault = None if path == scope["sent_to"] else self.fault(path, body)
        document = {"error": {"message": f"asked to fail at {path}"}}
        if not isinstance(fault, int):
            fault, document = await asyncio.to_thread(getattr(self, "_" + path.strip("/").replace("/", "_")), body)
        content = b"" if document is None else json.dumps(document).encode()
        await send({"type": "http.response.start", "status": fault, "headers": []})
        await send({"type": "http.response.body", "body": content})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def weights_under(self, model: str) -> str:
        """What a request for `model` is answered from."""
        return self.weights if model == self.model else f"{self.weights}+{self.adapters[model][1]}"

    def _health(self, body: Any) -> tuple[int, Any]:
        return 200, None

    def _v1_models(self, body: Any) -> tuple[int, Any]:
        base = {"id": self.model, "root": "x", "parent": None, "max_model_len": self.max_model_tokens}
        adapters = [
            {"id": name, "root": path, "parent": self.model, "max_model_len": None}
            for name, (path, _) in self.adapters.items()
        ]
        return 200, {"object": "list", "data": [base, *adapters]}

    def _weight_info(self, body: Any) -> tuple[int, Any]:
        return 200, {"weight_version": self.version}

    def _update_weight_version(self, body: Any) -> tuple[int, Any]:
        self.version = body["new_version"]
        return 200, {"success": True}

    def _pause(self, body: Any) -> tuple[int, Any]:
        self.paused = True
        return 200, {"status": "paused"}

    def _resume(self, body: Any) -> tuple[int, Any]:
        self.paused = False
        return 200, {"status": "resumed"}

    def _reset_prefix_cache(self, body: Any) -> tuple[int, Any]:
        return 200, {"success": self.clears_cache}

    def _collective_rpc(self, body: Any) -> tuple[int, Any]:
        if body["method"] != "troupe_reload" or not self.has_extension:
            why = f"'CPUWorker' object has no attribute '{body['method']}'"
            return 500, {
                "error": {"message": f"Call to collective_rpc method failed: Worker failed with error '{why}'"}
            }
        assert self.paused, "weights were reloaded under running requests"
        if self.repairs_head:
            self.weights = bytes_of(Path(body["args"][0]))
        return 200, {"results": [{"num_repaired_heads": 1}]}

    def _v1_load_lora_adapter(self, body: Any) -> tuple[int, Any]:
        if body["lora_name"] in self.adapters:
            return 400, {"error": {"message": "has already been loaded"}}
        path = Path(body["lora_path"])
        self.adapters[body["lora_name"]] = (str(path), bytes_of(path))
        return 200, None

    def _v1_unload_lora_adapter(self, body: Any) -> tuple[int, Any]:
        if self.adapters.pop(body["lora_name"], None) is None:
            return 404, {"error": {"message": "cannot be found"}}
        return 200, None

    def _inference_v1_generate(self, body: Any) -> tuple[int, Any]:
        sampling = body["sampling_params"]
        time.sleep(self.seconds_a_request)
        if body["model"] != self.model and body["model"] not in self.adapters:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        with self.lock:
            self.generated.append(body)
        weights = self.weights_under(body["model"])
        tokens = _sample(sampling)
        content = [
            {"token_id": token, "logprob": logprob_of(weights, token, at), "rank": 1} for at, token in enumerate(tokens)
        ]
        choice = {
            "index": 0,
            "token_ids": tokens,
            "finish_reason": "stop" if tokens[-1] == END else "length",
            "weight_versions": [{"version": self.version, "start": 0, "end": len(tokens)}],
            "logprobs": {"content": content},
        }
        prompt = body["token_ids"]
        scores = [{str(token): {"logprob": logprob_of(weights, token, at)}} for at, token in enumerate(prompt)]
        return 200, {"choices": [choice], "prompt_logprobs": [None, *scores[1:]]}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: VllmWireServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}"))

    def _answer(self, body: dict[str, Any]) -> None:
        server, path = self.server, self.path
        fault = server.fault(path, body)
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if fault == "hang" or (path == "/health" and not server.healthy):
            server.released.wait(20)
            self.close_connection = True
            return
        if isinstance(fault, bytes):
            self.send_response(200)
            self.send_header("Content-Length", str(len(fault)))
            self.end_headers()
            self.wfile.write(fault)
            return
        if isinstance(fault, int):
            self._send(fault, {"error": {"message": f"asked to fail at {path}"}})
            return
        if path != "/health" and self.headers.get("Authorization") != f"Bearer {KEY}":
            self._send(401, {"error": {"message": "the key of this server is missing or wrong"}})
            return
        self._send(*asyncio.run_coroutine_threadsafe(self._pass_on(body), server.loop).result())

    async def _pass_on(self, body: dict[str, Any]) -> tuple[int, Any]:
        """What the server's middleware, or vLLM's routes below it, answer."""
        address, status, content = urlsplit(self.path), 500, b""

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status, content
            status, content = message.get("status", status), content + message.get("body", b"")

        scope = {"type": "http", "method": self.command, "path": address.path, "headers": [], "sent_to": address.path}
        await self.server.middleware({**scope, "query_string": address.query.encode()}, receive, send)
        return status, json.loads(content) if content else None

    def _send(self, status: int, document: Any) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


def sample_tokens(seed: int, max_tokens: int) -> list[int]:
    """What the server answers to a seed: some tokens, and the end where it fits."""
    drawn = [2 + (seed * 31 + at * 17) % 7 for at in range(seed % 4)]
    return [*drawn, END][:max_tokens]


def _sample(sampling: dict[str, Any]) -> list[int]:
    return sample_tokens(0 if sampling.get("temperature") == 0 else sampling.get("seed", 0), sampling["max_tokens"])


@contextmanager
def wire_server(model: str = "team", **options: Any) -> Iterator[VllmWireServer]:
    """A running one."""
    with VllmWireServer(model, **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        loop = threading.Thread(target=server.loop.run_forever, daemon=True)
        loop.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
            server.loop.call_soon_threadsafe(server.loop.stop)
            loop.join()
            server.loop.close()
