"""The docker SDK: the one place that imports it, with time limits on every call and its errors as ours."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from components.errors import SandboxUnavailable, ServiceMissing

API_SECONDS = 10.0
"""How long one answer of the engine may take."""
_UNIX = "unix://"


class EngineApi:
    """A client of the engine at `host`, which has answered. For many threads; closed by `close`, or as a context.

    Raises SandboxUnavailable when it does not answer, ServiceMissing when the SDK is not installed.
    """

    def __init__(self, host: str, *, timeout_seconds: float = API_SECONDS) -> None:
        try:
            import docker
        except ImportError as error:
            raise ServiceMissing(
                "the Python package docker is not installed: run `make setup`, or `pip install 'docker>=7.2'`"
            ) from error
        self.host = host
        self._timeout_seconds = timeout_seconds
        self._client: Any = None
        with self._errors(f"the engine at {host} does not answer"):
            self._client = docker.APIClient(base_url=host, timeout=timeout_seconds)

    def __enter__(self) -> "EngineApi":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def call(self, what: str) -> Iterator[Any]:
        """The SDK's `APIClient`; what it raises inside becomes SandboxUnavailable, told as `what`: reason."""
        with self._errors(what):
            yield self._client

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        import docker
        import requests

        try:
            self._knock()
            yield
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            raise SandboxUnavailable(f"{what}: {_reason(error)}") from error

    def _knock(self) -> None:
        """Fail when nobody listens: the SDK leaves its socket open then."""
        if self.host.startswith(_UNIX):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(self._timeout_seconds)
                probe.connect(self.host.removeprefix(_UNIX))


def is_missing(error: SandboxUnavailable) -> bool:
    """Whether the engine said that the container or image is not there, or is just being removed."""
    return getattr(error.__cause__, "status_code", None) in (404, 409)


def _reason(error: BaseException) -> str:
    """The innermost cause in one line: requests wraps it several times."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]
