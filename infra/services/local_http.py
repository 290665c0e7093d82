"""Requests to servers of this machine, past any proxy that the user's environment names."""

import base64
import urllib.error
import urllib.request
from collections.abc import Mapping

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = 2.0,
) -> tuple[int, bytes]:
    """(HTTP status, body). A server that does not answer is an OSError; an error status is returned like any other."""
    message = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)
    try:
        with _DIRECT.open(message, timeout=timeout_seconds) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def basic(credentials: str) -> dict[str, str]:
    """The header by which HTTP Basic authentication gives `credentials`, `name:password` where a name is asked for."""
    return {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}


def answers(url: str, *, timeout_seconds: float = 2.0) -> bool:
    """Whether a GET of `url` gives 200."""
    try:
        return request("GET", url, timeout_seconds=timeout_seconds)[0] == 200
    except OSError:
        return False
