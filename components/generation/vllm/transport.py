"""JSON over HTTP to replicas, on connections that aiohttp keeps open."""

import json
from asyncio import IncompleteReadError
from typing import Any

import aiohttp

from components.errors import PermanentError, TransientError
from components.text.bounded_json import parse_bounded_json

_CONNECT_TIMEOUT_SECONDS = 5.0
_BUSY = (408, 429)
MAX_ANSWER_BYTES = 16 << 20
"""Enough for the log-probabilities of more than a hundred thousand tokens."""
_SHOWN = 400
"""Characters of a server's message quoted in an error."""


class ReplicaFailed(TransientError):
    """One replica did not answer, or answered with an error of its own; another may succeed."""


class RequestRefused(PermanentError):
    """A replica rejected the request itself; the message begins with the HTTP status."""


class FolderUnseen(RequestRefused):
    """A server does not see a folder, and was not told where its files are."""


class Transport:
    """Sends requests to any number of servers, bypassing proxies, with `key` as bearer token. Lives in one event loop."""

    def __init__(self, key: str) -> None:
        self._headers = {"Authorization": f"Bearer {key}", "Accept-Encoding": "identity"}
        self._session: aiohttp.ClientSession | None = None

    async def call(self, url: str, path: str, body: bytes | None = None, *, timeout_seconds: float) -> Any:
        """The JSON answer to a GET, or with `body` to a POST; None if it is empty. Raises ReplicaFailed or RequestRefused.

        A kept connection that the server has closed in the meantime is replaced once.
        """
        try:
            try:
                status, content = await self._answer(url + path, body, timeout_seconds)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                status, content = await self._answer(url + path, body, timeout_seconds)
        except TimeoutError as error:
            raise ReplicaFailed(f"{url}: TimeoutError: no answer in {timeout_seconds:g} s") from error
        except aiohttp.ClientError as error:
            cause = error.__cause__ or error
            raise ReplicaFailed(f"{url}: {type(cause).__name__}: {cause}") from error
        return _document(url, path, status, content)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _answer(self, address: str, body: bytes | None, timeout_seconds: float) -> tuple[int, bytes]:
        if self._session is None:
            # The router limits concurrent requests.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), headers=self._headers, auto_decompress=False
            )
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=_CONNECT_TIMEOUT_SECONDS)
        kind = {"Content-Type": "application/json"} if body else {}
        method = "GET" if body is None else "POST"
        async with self._session.request(method, address, data=body, headers=kind, timeout=timeout) as answer:
            try:
                await answer.content.readexactly(MAX_ANSWER_BYTES + 1)
            except IncompleteReadError as whole:
                return answer.status, whole.partial
        raise aiohttp.ClientPayloadError(f"an answer of more than {MAX_ANSWER_BYTES >> 20} MiB")


def encode_json(body: Any) -> bytes:
    """`body` as JSON bytes."""
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def _document(url: str, path: str, status: int, content: bytes) -> Any:
    if status >= 500 or status in _BUSY:
        raise ReplicaFailed(f"{url}{path} answered HTTP {status}: {_message(content)}")
    if status == 401:
        raise RequestRefused(f"HTTP 401 from {url}: generation.vllm.key_file does not hold this server's key")
    if status == 424:
        raise FolderUnseen(f"HTTP 424 from {url}{path}: {_message(content)}")
    if status >= 400:
        raise RequestRefused(f"HTTP {status} from {url}{path}: {_message(content)}")
    if not content or content[:1] not in b'{["':
        return None
    try:
        return parse_bounded_json(content)
    except ValueError as error:
        raise ReplicaFailed(f"{url}{path} answered with broken JSON: {error}") from error


def _message(content: bytes) -> str:
    """The message in a server's error document, or the whole text if it is not one."""
    try:
        error = parse_bounded_json(content)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        text = content.decode(errors="replace")
    return text[:_SHOWN]
