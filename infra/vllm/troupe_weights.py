"""The weights that a vLLM server holds, by digest. Calls of several clients take turns, and nobody's adapter is taken away.

    POST /troupe/weights {weights, folder, files?}                  hold these full weights
    POST /troupe/adapter {weights, name, digest, folder, files?}    hold this adapter of them under `name`
    POST /inference/v1/generate?adapter=NAME                 vLLM's route; the adapter stays while its request runs

What is held already is not loaded again, from whichever folder. A folder that is not on this host is answered with 424, until
`files` say where its files are: `{path, sha256, num_bytes, url}`; they are fetched and checked before vLLM sees them. The
server keeps copies of adapters: vLLM reads their files again at any time, and dies when they are gone (0.32). Its weight
version, in every answer, is JSON of what it holds.

The server imports this file as it does `troupe_guard`, so it imports only what vLLM depends on.
"""

import asyncio
import hashlib
import json
import shutil
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

GENERATE = "/inference/v1/generate"
RELOAD = "troupe_reload"
"""The method of `troupe_worker`."""
_FETCH_SECONDS = 60.0
"""Between two parts of a file."""
MOST_ADAPTERS = 16
"""Beyond them the one that was used longest ago is unloaded."""


@dataclass(slots=True)
class Adapter:
    """A loaded adapter: its digest, the server's copy of its files, and its requests under way."""

    digest: str
    folder: Path
    num_requests: int = 0
    is_unloaded: bool = False

    def remove_unused(self) -> None:
        """Remove the copy as soon as nothing can read it any more."""
        if self.is_unloaded and not self.num_requests:
            shutil.rmtree(self.folder, ignore_errors=True)


class CallFailed(Exception):
    """One of vLLM's own routes refused; the client is given its status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Weights:
    """An ASGI middleware that adds the routes above."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app
        self._turn = asyncio.Lock()
        self._weights: str | None = None
        self._adapters: dict[str, Adapter] = {}
        """By name; the one used last at the end."""

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer the routes above; pass everything else on."""
        routes: dict[str, Callable[[Scope, Any], Awaitable[bool]]] = {
            "/troupe/weights": self._hold_weights,
            "/troupe/adapter": self._hold_adapter,
        }
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
        elif (route := routes.get(scope["path"])) is not None:
            await self._answer(route, scope, receive, send)
        elif scope["path"] == GENERATE and (named := parse_qs(scope["query_string"].decode()).get("adapter")):
            await self._generate(named[0], scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, route: Any, scope: "Scope", receive: "Receive", send: "Send") -> None:
        from starlette.requests import Request
        from starlette.responses import JSONResponse

        try:
            wanted = await Request(scope, receive).json()
            async with self._turn:
                status, document = 200, {"loaded": await route(scope, wanted)}
        except CallFailed as error:
            status, document = error.status, {"error": {"message": str(error)}}
        except OSError as error:
            status, document = 503, {"error": {"message": f"this host's disk: {error}"}}
        except (ValueError, KeyError, TypeError) as error:
            status, document = 400, {"error": {"message": f"unexpected body: {error!r}"}}
        await JSONResponse(document, status)(scope, receive, send)

    async def _generate(self, name: str, scope: "Scope", receive: "Receive", send: "Send") -> None:
        adapter = self._adapters.pop(name, None)
        if adapter is None:
            from starlette.responses import JSONResponse

            gone = {"error": {"message": f"the adapter {name} is not loaded, or was unloaded for others"}}
            await JSONResponse(gone, 503)(scope, receive, send)
            return
        self._adapters[name] = adapter
        adapter.num_requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            adapter.num_requests -= 1
            adapter.remove_unused()

    async def _hold_weights(self, scope: "Scope", wanted: Any) -> bool:
        """Load full weights unless they are held. The weight version is empty meanwhile, and stays so after a failure."""
        if self._weights == wanted["weights"]:
            return False
        with tempfile.TemporaryDirectory(prefix="weights-") as scratch:
            await self._reload(scope, wanted["weights"], await self._find(wanted, Path(scratch)))
        return True

    async def _reload(self, scope: "Scope", weights: str, folder: Path) -> None:
        await self._call(scope, "/pause?mode=wait", {})
        try:
            self._weights = None
            for name in tuple(self._adapters):
                await self._unload(scope, name)
            await self._tell_version(scope)
            await self._call(scope, "/collective_rpc", {"method": RELOAD, "args": [str(folder)]})
            if not (await self._call(scope, "/reset_prefix_cache", {}) or {}).get("success"):
                raise CallFailed(500, "prefixes of the old weights are still in the cache")
            self._weights = weights
            await self._tell_version(scope)
        finally:
            await self._call(scope, "/resume", {})

    async def _hold_adapter(self, scope: "Scope", wanted: Any) -> bool:
        """Load an adapter of the held weights unless it is held; unload the one that was used longest ago for it."""
        name, digest, held = wanted["name"], wanted["digest"], self._adapters.get(wanted["name"])
        if self._weights != wanted["weights"]:
            raise CallFailed(503, f"the weights {wanted['weights']} below {name} were replaced by {self._weights}")
        if held is not None and held.digest == digest:
            self._adapters[name] = self._adapters.pop(name)
            return False
        unused = [other for other, adapter in self._adapters.items() if not adapter.num_requests]
        for other in {name} & {*self._adapters} or unused[: max(0, len(self._adapters) + 1 - MOST_ADAPTERS)]:
            await self._unload(scope, other)
        copy = Path(tempfile.mkdtemp(prefix="adapter-"))
        try:
            found = await self._find(wanted, copy)
            if found != copy:
                await asyncio.to_thread(shutil.copytree, found, copy, dirs_exist_ok=True)
            await self._call(scope, "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(copy)})
        except BaseException as error:
            shutil.rmtree(copy, ignore_errors=True)
            if isinstance(error, OSError):
                raise CallFailed(400, f"the adapter's folder cannot be read: {error}") from error
            raise
        self._adapters[name] = Adapter(digest, copy)
        await self._tell_version(scope)
        return True

    async def _find(self, wanted: Any, into: Path) -> Path:
        """The folder with the wanted files: as it is named, or `into` once they are there. Raises CallFailed."""
        named = Path(wanted["folder"])
        if named.is_dir():
            return named
        if "files" not in wanted:
            raise CallFailed(424, f"{named} is not on this host")
        for file in wanted["files"]:
            await asyncio.to_thread(fetch, file, into)
        return into

    async def _unload(self, scope: "Scope", name: str) -> None:
        adapter = self._adapters.pop(name)
        adapter.is_unloaded = True
        try:
            await self._call(scope, "/v1/unload_lora_adapter", {"lora_name": name})
        finally:
            adapter.remove_unused()

    async def _tell_version(self, scope: "Scope") -> None:
        held = {"adapters": {name: each.digest for name, each in self._adapters.items()}, "weights": self._weights}
        await self._call(scope, "/update_weight_version", {"new_version": json.dumps(held, sort_keys=True)})

    async def _call(self, scope: "Scope", address: str, body: Any) -> Any:
        """The JSON answer of one of vLLM's own routes, None if it has none. Raises CallFailed."""
        path, _, query = address.partition("?")
        content, status, parts = json.dumps(body).encode(), 500, []
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        own = {"path": path, "raw_path": path.encode(), "query_string": query.encode(), "headers": headers}
        sent = [{"type": "http.request", "body": content, "more_body": False}]

        async def receive() -> "Message":
            # The next message would say that the client has gone, and cancel the call.
            return sent.pop() if sent else await asyncio.Future()

        async def send(message: "Message") -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self._app({**scope, **own}, receive, send)
        answer = b"".join(parts)
        if status >= 400:
            raise CallFailed(status, f"{address} {content.decode()}: {answer.decode(errors='replace')}")
        return json.loads(answer) if answer[:1] in (b"{", b"[") else None


def fetch(file: Any, into: Path) -> None:
    """Write a signed file below `into`. Raises CallFailed if it is not what was promised, or cannot be had."""
    target = (into / file["path"]).resolve()
    if into.resolve() not in target.parents:
        raise CallFailed(400, f"{file['path']} is outside of its folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, num_bytes = hashlib.sha256(), 0
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(file["url"], timeout=_FETCH_SECONDS) as answer, target.open("wb") as written:
            while chunk := answer.read(1 << 20):
                digest.update(chunk)
                num_bytes += written.write(chunk)
    except OSError as error:
        raise CallFailed(503, f"{file['path']} could not be fetched: {error}") from error
    if (digest.hexdigest(), num_bytes) != (file["sha256"], file["num_bytes"]):
        raise CallFailed(503, f"{file['path']} has {num_bytes} bytes with another digest than promised")
