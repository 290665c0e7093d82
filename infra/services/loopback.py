"""Ports of this machine, and HTTP requests to the servers on them, bypassing any proxy of the user's environment."""

import base64
import fcntl
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack

from components.machine.scratch import private_folder

LOOPBACK = "127.0.0.1"
ANSWER_SECONDS = 2.0
"""In which a server answers, unless its caller gives it longer."""
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def local_url(port: int) -> str:
    """The HTTP address of a port on this machine."""
    return f"http://{LOOPBACK}:{port}"


def request(
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = ANSWER_SECONDS,
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


def choose_ports(*choices: Mapping[str, int], reserved: ExitStack | None = None) -> dict[str, int]:
    """A different free port for each name: the first free one of `choices` (0 means any), else one chosen by the system.

    Until `reserved` closes, no other caller that reserves gets them, so two stacks that start at once do not collide.
    """
    names = dict.fromkeys(name for choice in choices for name in choice)
    with ExitStack() as held:
        return {name: _bound(held, [choice.get(name, 0) for choice in choices], reserved) for name in names}


def _bound(held: ExitStack, wanted: list[int], reserved: ExitStack | None) -> int:
    """The first port of `wanted`, then any, that can be bound; it stays bound until `held` closes."""
    for port in [port for port in wanted if port] + [0]:
        if port and reserved is not None and not _reserve(reserved, port):
            continue
        probe = held.enter_context(socket.socket())
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            continue
        probe.listen(1)
        return int(probe.getsockname()[1])
    raise AssertionError("the system gives no free port")


def _reserve(reserved: ExitStack, port: int) -> bool:
    """Whether `port` was unreserved; it is then reserved until `reserved` closes or this process ends."""
    path = private_folder("troupe-ports") / str(port)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    reserved.callback(os.close, file)
    return True
