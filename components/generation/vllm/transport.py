"""JSON over HTTP to a replica, on connections that stay open, one a thread.

http.client, because it costs a quarter of httpx's time a request, which counts when each candidate is a request.
"""

import http.client
import json
import socket
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit
from weakref import WeakSet

from components.bounded_json import bounded_json
from components.errors import PermanentError, TransientError

_CONNECT_TIMEOUT_SECONDS = 5.0
_BUSY = (408, 429)
MAX_ANSWER_BYTES = 16 << 20
"""Of one document: log-probabilities of more than a hundred thousand tokens."""
_SHOWN = 400
"""Characters of a server's own words in an error."""


class ReplicaFailed(TransientError):
    """One replica did not answer, or answered that it cannot; another may."""


class RequestRefused(PermanentError):
    """A replica answered that the request itself is wrong; the message begins with the HTTP status."""


class _Endless(http.client.HTTPException):
    """More came than any true answer holds."""


class Transport(Protocol):
    """How replicas are reached."""

    def call(self, url: str, path: str, body: bytes | None = None, *, timeout_seconds: float) -> Any:
        """The JSON document that `url` answers: a GET without `body`, a POST with it. None for an empty answer.

        Raises ReplicaFailed or RequestRefused.
        """
        ...

    def abandon(self, url: str) -> None:
        """Let every call to `url` that is under way fail now."""
        ...

    def close(self) -> None:
        """Give all connections back."""
        ...


class HttpTransport:
    """A Transport over plain HTTP/1.1, past any proxy. Safe to share between threads."""

    def __init__(self, key: str) -> None:
        """`key` is shown to every replica."""
        self._headers = {"Authorization": f"Bearer {key}"}
        self._own = threading.local()
        self._open: defaultdict[str, WeakSet[_Connection]] = defaultdict(WeakSet)
        self._lock = threading.Lock()

    def call(self, url: str, path: str, body: bytes | None = None, *, timeout_seconds: float) -> Any:
        """See Transport. A connection that the server has closed while nobody used it is replaced once."""
        connection = self._connection(url)
        try:
            status, content = connection.ask(path, body, self._headers, timeout_seconds)
        except (OSError, http.client.HTTPException) as error:
            was_used, abandoned = connection.num_answers > 0, connection.abandoned
            self._drop(url)
            if abandoned or isinstance(error, TimeoutError | _Endless) or not was_used:
                raise _failed(url, error) from error
            return self.call(url, path, body, timeout_seconds=timeout_seconds)
        return _document(url, path, status, content)

    def abandon(self, url: str) -> None:
        """See Transport."""
        with self._lock:
            found = list(self._open.pop(url, ()))
        for connection in found:
            connection.abandon()

    def close(self) -> None:
        """See Transport."""
        for url in list(self._open):
            self.abandon(url)

    def _connection(self, url: str) -> "_Connection":
        held: dict[str, _Connection] = self._own.__dict__
        if url not in held or held[url].abandoned:
            held[url] = _Connection(url)
            with self._lock:
                self._open[url].add(held[url])
        return held[url]

    def _drop(self, url: str) -> None:
        connection = self._own.__dict__.pop(url, None)
        if connection is not None:
            connection.close()


class _Connection:
    """One kept-alive connection."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        self._http = kind(str(address.hostname), address.port, timeout=_CONNECT_TIMEOUT_SECONDS)
        self._prefix = address.path.rstrip("/")
        self.num_answers = 0
        self.abandoned = False

    def ask(
        self, path: str, body: bytes | None, headers: Mapping[str, str], timeout_seconds: float
    ) -> tuple[int, bytes]:
        if self._http.sock is None:
            self._http.connect()
        self._http.sock.settimeout(timeout_seconds)
        kind = {"Content-Type": "application/json"} if body else {}
        self._http.request("GET" if body is None else "POST", self._prefix + path, body, {**kind, **headers})
        answer = self._http.getresponse()
        content = answer.read(MAX_ANSWER_BYTES + 1)
        if len(content) > MAX_ANSWER_BYTES:
            raise _Endless(f"an answer of more than {MAX_ANSWER_BYTES >> 20} MiB")
        self.num_answers += 1
        return answer.status, content

    def abandon(self) -> None:
        """Wake whoever waits on this connection, from another thread."""
        self.abandoned = True
        sock = self._http.sock
        if sock is not None:
            with suppress(OSError):  # it was closed already
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._http.close()

    def __del__(self) -> None:
        self.close()  # its thread has ended, or nobody asks this server any more


def encoded(body: Any) -> bytes:
    """A request's body as JSON bytes."""
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def _document(url: str, path: str, status: int, content: bytes) -> Any:
    if status >= 500 or status in _BUSY:
        raise ReplicaFailed(f"{url}{path} answered HTTP {status}: {_words(content)}")
    if status == 401:
        raise RequestRefused(f"HTTP 401 from {url}: generation.vllm.key_file does not hold this server's key")
    if status >= 400:
        raise RequestRefused(f"HTTP {status} from {url}{path}: {_words(content)}")
    if not content or content[:1] not in b'{["':
        return None
    try:
        return bounded_json(content)
    except ValueError as error:
        raise ReplicaFailed(f"{url}{path} answered with broken JSON: {error}") from error


def _words(content: bytes) -> str:
    """What a server says in an error, without the document around it."""
    text = content.decode(errors="replace")
    try:
        error = bounded_json(content)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return text[:_SHOWN]
    return text[:_SHOWN]


def _failed(url: str, error: Exception) -> ReplicaFailed:
    return ReplicaFailed(f"{url}: {type(error).__name__}: {error}")
