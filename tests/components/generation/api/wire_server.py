"""A local HTTP server that speaks the wire formats of POST /v1/chat/completions and POST /v1/messages.

It refuses what the real ones refuse (a wrong key, an unknown model, fields that the protocol does not have), answers by a
function of the prompt, and plays scripted replies first: rate limits, server errors, slow or broken answers.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-wire-7f3a9c51e0"
MODEL = "wire-1"
NUM_PROMPT_TOKENS = 10
NUM_ANSWER_TOKENS = 3
"""Of one answer."""

_CHAT_FIELDS = {
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "seed",
    "stop",
    "temperature",
    "stream",
}
_MESSAGES_FIELDS = {"model", "messages", "system", "max_tokens", "stop_sequences", "temperature", "stream"}


@dataclass(frozen=True)
class Reply:
    """One scripted answer. `body` None is the answer that the server would give anyway, after `delay_seconds`."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class Exchange:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    at: float


class WireServer:
    """What a test scripts and reads. `answer(state, index)` gives the text of answer `index` to a prompt."""

    def __init__(self) -> None:
        self.answer: Callable[[str, int], str] = lambda state, index: f"{state}/{index}"
        self.delay_of: Callable[[str], float] = lambda state: 0.0
        self.script: deque[Reply] = deque()
        self.exchanges: list[Exchange] = []
        self.peak = 0
        self.port = 0
        self._open = 0
        self._lock = threading.Lock()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def base_url(self, provider: str) -> str:
        return f"{self.root}/v1" if provider == "openai" else self.root

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [exchange.body for exchange in self.exchanges]

    def reply_to(self, exchange: Exchange) -> Reply:
        with self._lock:
            self.exchanges.append(exchange)
            self._open += 1
            self.peak = max(self.peak, self._open)
            reply = self.script.popleft() if self.script else Reply()
        try:
            usual = self._usual(exchange)
            state = str(exchange.body["messages"][-1]["content"])
            time.sleep(reply.delay_seconds + self.delay_of(state))
        finally:
            with self._lock:
                self._open -= 1
        return usual if reply.body is None and reply.status == 200 else reply

    def _usual(self, exchange: Exchange) -> Reply:
        protocols = {"/v1/chat/completions": self._chat, "/v1/messages": self._messages}
        return protocols[exchange.path](exchange) if exchange.path in protocols else Reply(404, b"not found")

    def _chat(self, exchange: Exchange) -> Reply:
        body = exchange.body
        if exchange.headers.get("authorization") != f"Bearer {KEY}":
            said = f"Incorrect API key provided: {exchange.headers.get('authorization', '').removeprefix('Bearer ')}"
            return openai_error(401, said, code="invalid_api_key")
        if body["model"] != MODEL:
            return openai_error(404, f"The model '{body['model']}' does not exist", code="model_not_found")
        if unknown := set(body) - _CHAT_FIELDS:
            return openai_error(400, f"Unrecognized request argument supplied: {min(unknown)}", param=min(unknown))
        if "max_tokens" in body and "max_completion_tokens" in body:
            return openai_error(400, "Setting 'max_tokens' and 'max_completion_tokens' at once is not supported")
        if len(body.get("stop", ())) > 4:
            return openai_error(400, "Invalid 'stop': array too long. Expected 4 items at most", param="stop")
        if not 0 <= body.get("temperature", 1) <= 2:
            return openai_error(400, "Invalid 'temperature': must be at most 2", param="temperature")
        state = body["messages"][-1]["content"]
        return Reply(body=chat_completion(*(choice(self.answer(state, i), i) for i in range(body.get("n", 1)))))

    def _messages(self, exchange: Exchange) -> Reply:
        body, headers = exchange.body, exchange.headers
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if key != KEY:
            return anthropic_error(401, "authentication_error", f"invalid x-api-key: {key}")
        if body["model"] != MODEL:
            return anthropic_error(404, "not_found_error", f"model: {body['model']}")
        if unknown := set(body) - _MESSAGES_FIELDS:
            return anthropic_error(400, "invalid_request_error", f"{min(unknown)}: Extra inputs are not permitted")
        if "temperature" in body and headers["anthropic-version"] != "2023-06-01":
            return anthropic_error(400, "invalid_request_error", "temperature: Extra inputs are not permitted")
        if not 0 <= body.get("temperature", 1) <= 1:
            return anthropic_error(400, "invalid_request_error", "temperature: range: 0..1")
        return Reply(body=message(self.answer(body["messages"][-1]["content"], 0)))


def choice(text: str | None, index: int = 0, *, reason: str = "stop", refusal: str | None = None) -> dict[str, Any]:
    """One choice of a chat completion."""
    return {
        "index": index,
        "message": {"role": "assistant", "content": text, "refusal": refusal},
        "logprobs": None,
        "finish_reason": reason,
    }


def chat_completion(*choices: dict[str, Any], usage: bool = True, answer_tokens: int | None = None) -> dict[str, Any]:
    """A whole answer of POST /v1/chat/completions."""
    num_answer_tokens = len(choices) * NUM_ANSWER_TOKENS if answer_tokens is None else answer_tokens
    whole: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": MODEL,
        "choices": list(choices),
    }
    if usage:
        whole["usage"] = {
            "prompt_tokens": NUM_PROMPT_TOKENS,
            "completion_tokens": num_answer_tokens,
            "total_tokens": NUM_PROMPT_TOKENS + num_answer_tokens,
        }
    return whole


def message(*texts: str, reason: str = "end_turn") -> dict[str, Any]:
    """A whole answer of POST /v1/messages."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": text} for text in texts],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": NUM_PROMPT_TOKENS - 6,
            "cache_creation_input_tokens": 4,
            "cache_read_input_tokens": 2,
            "output_tokens": NUM_ANSWER_TOKENS,
        },
    }


def make_answer(provider: str, text: str, *, length: bool = False) -> Reply:
    """One answer in the provider's own form."""
    if provider == "openai":
        return Reply(body=chat_completion(choice(text, reason="length" if length else "stop")))
    return Reply(body=message(text, reason="max_tokens" if length else "end_turn"))


def openai_error(status: int, said: str, *, code: str | None = None, param: str | None = None) -> Reply:
    return Reply(status, {"error": {"message": said, "type": "error", "param": param, "code": code}})


def anthropic_error(status: int, kind: str, said: str) -> Reply:
    return Reply(status, {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_1"})


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is what the tests of timeouts are about."""


@contextmanager
def wire_server() -> Iterator[WireServer]:
    """A running server; its threads end with the block."""
    wire = WireServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16
        """One packet an answer: two would wait 40 ms for each other on a kept connection."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = wire.reply_to(Exchange(self.path, headers, body, time.monotonic()))
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"content-type": reply.content_type, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a test reads `exchanges`."""

    server = _Quiet(("127.0.0.1", 0), Handler)
    wire.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield wire
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
