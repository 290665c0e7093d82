"""HTTP requests to servers of this machine, bypassing any proxy of the user's environment."""

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
    """(HTTP status, body), error statuses included. Raises OSError if the server does not answer."""
    message = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)
    try:
        with _DIRECT.open(message, timeout=timeout_seconds) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def basic(credentials: str) -> dict[str, str]:
    """The HTTP Basic authentication header for `credentials`, `name:password` or a password alone."""
    return {"Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}


def answers(url: str) -> bool:
    """Whether a GET of `url` returns 200."""
    try:
        return request("GET", url)[0] == 200
    except OSError:
        return False
