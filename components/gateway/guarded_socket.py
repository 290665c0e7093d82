"""The Unix socket of one session: what the session sends there holds up no other, and fills no log."""

import asyncio
import logging
import socket
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from components.gateway.base import RequestRefused
from components.gateway.dialects.table import CHAT

MOST_CONNECTIONS = 64
"""Further ones wait to be taken."""
MOST_AT_ONCE = 16
"""Requests that are read and answered; further ones wait to be read."""
MOST_REFUSED = 200
"""Requests that are refused before none is read any more."""
_FULL_SECONDS = 0.02
_REFUSED = range(400, 499)
_log = logging.getLogger(__name__)
WIRE_LOG = logging.getLogger(f"{__name__}.wire")
WIRE_LOG.disabled = True  # what sessions send that is no HTTP: as much as they like


class GuardedSocket:
    """Takes a number of connections at a time, so that no session has all that the process may open."""

    def __init__(self, runner: web.AppRunner, listening: socket.socket) -> None:
        self._runner = runner
        self._listening = listening
        self._taking = asyncio.create_task(self._take())

    async def close(self) -> None:
        """Take no more connections, and end those that stand."""
        self._taking.cancel()
        await asyncio.wait([self._taking])
        self._listening.close()
        await self._runner.cleanup()

    async def _take(self) -> None:
        loop, server = asyncio.get_running_loop(), self._runner.server
        assert server is not None
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
                await loop.connect_accepted_socket(server, connection)
            except OSError:  # one that broke, or no descriptor is free
                await asyncio.sleep(_FULL_SECONDS)
            while len(server.connections) >= MOST_CONNECTIONS:
                await asyncio.sleep(_FULL_SECONDS)


def bind_socket(path: Path) -> socket.socket:
    """A socket that listens at a path, for all who reach its folder. Raises OSError."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        path.chmod(0o666)
        listening.listen()
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def guard_session() -> Middleware:
    """Lets some requests of one session in at a time, and none any more after many that were refused."""
    room = asyncio.Semaphore(MOST_AT_ONCE)
    num_refused = 0

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal num_refused
        if num_refused >= MOST_REFUSED:
            refused = RequestRefused("this session was refused too often; end the task", status=403)
            return web.json_response(CHAT.write_refusal(refused), status=refused.status)
        async with room:
            try:
                response = await handler(request)
            except ConnectionError:
                raise
            except Exception as error:  # the border of a session: what it asks fills no log
                num_refused += 1
                _log.warning("a request of a session failed: %s: %s", type(error).__name__, str(error)[:200])
                raise
        num_refused += response.status in _REFUSED
        return response

    return guard
