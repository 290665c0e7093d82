"""Authentication for a vLLM server: every route except /health requires the key.

vLLM's --api-key does not guard the routes that replace weights. The server imports this file (`--middleware
troupe_guard.Guard`, with this folder on PYTHONPATH), so it imports only what vLLM depends on.
"""

import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

KEY_FILE_VARIABLE = "TROUPE_VLLM_KEY_FILE"
SHORTEST_KEY = 32
"""Characters."""


def read_key() -> str:
    """The key in the file that TROUPE_VLLM_KEY_FILE names. Raises ValueError if there is none."""
    path = os.environ.get(KEY_FILE_VARIABLE)
    if not path:
        raise ValueError(f"set {KEY_FILE_VARIABLE} to a file with a secret key, for example of `openssl rand -hex 32`")
    key = Path(path).read_text(encoding="utf-8").strip()
    if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"{path}: a key has at least {SHORTEST_KEY} characters, all of them printable ASCII")
    return key


class Guard:
    """An ASGI middleware that passes on only what carries `Authorization: Bearer KEY`."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app
        self._wanted = f"Bearer {read_key()}".encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer 401, or close a websocket, if the key is missing or wrong."""
        is_health_check = scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/health"
        if scope["type"] == "lifespan" or is_health_check or self._has_key(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "no key"})
        else:
            from starlette.responses import JSONResponse  # serve.py imports this file without any package

            refusal = {"error": {"message": "the key of this server is missing or wrong"}}
            await JSONResponse(refusal, 401, {"www-authenticate": "Bearer"})(scope, receive, send)

    def _has_key(self, scope: "Scope") -> bool:
        shown = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        return len(shown) == 1 and hmac.compare_digest(shown[0], self._wanted)
