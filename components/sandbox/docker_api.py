"""The docker SDK, with a time limit on every call and its errors as SandboxUnavailable. Imported nowhere else."""

import functools
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from components.errors import SandboxUnavailable, ServiceMissing
from components.machine.closeable import Closeable

API_SECONDS = 10.0
"""How long one answer of the daemon may take."""


class DockerApi(Closeable):
    """A client of the daemon at `host`, for many threads.

    Raises SandboxUnavailable when the daemon does not answer, ServiceMissing when the SDK is not installed.
    """

    def __init__(self, host: str, *, timeout_seconds: float = API_SECONDS) -> None:
        docker = _sdk()
        self.host = host
        with _errors(f"the daemon at {host} does not answer"):
            self._client: Any = docker.APIClient(base_url=host, timeout=timeout_seconds)

    @contextmanager
    def call(self, what: str) -> Iterator[Any]:
        """The SDK's `APIClient`; its errors in the block become SandboxUnavailable("{what}: {reason}")."""
        with _errors(what):
            yield self._client

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


def is_missing(error: SandboxUnavailable) -> bool:
    """Whether the container or image does not exist, or is being removed."""
    return getattr(error.__cause__, "status_code", None) in (404, 409)


def _reason(error: BaseException) -> str:
    """The innermost cause in one line: requests wraps it several times."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]


@contextmanager
def _errors(what: str) -> Iterator[None]:
    import requests

    try:
        yield
    except (_sdk().errors.DockerException, requests.RequestException, OSError) as error:
        raise SandboxUnavailable(f"{what}: {_reason(error)}") from error


@functools.cache
def _sdk() -> Any:
    """The package docker, patched so that a failed connection closes its socket."""
    try:
        import docker
        from docker.transport import unixconn
    except ImportError as error:
        raise ServiceMissing(
            "the Python package docker is not installed: run `make setup`, or `pip install 'docker>=7.2'`"
        ) from error

    class Connection(unixconn.UnixHTTPConnection):  # type: ignore[misc]
        def connect(self) -> None:
            stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                stream.settimeout(self.timeout)
                stream.connect(self.unix_socket)
            except BaseException:
                stream.close()
                raise
            self.sock = stream

    unixconn.UnixHTTPConnection = Connection
    return docker
