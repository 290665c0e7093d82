"""Where the programs of a run find its gateways: at one address for as long as it lasts, or at a socket that a box leads to."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.gateway.server import Entrance, GatewayServer
from components.gateway.sessions import AgentSession
from components.machine.closeable import Closeable
from components.machine.scratch import scratch_folder


class ProgramDoor(Closeable):
    """Admits sessions, each with the gateway that answers it, at `url`."""

    def __init__(self, *, num_at_once: int) -> None:
        """`num_at_once` answers are sampled at once."""
        self._server = GatewayServer(num_at_once=num_at_once)
        self._sessions: dict[str, AgentSession] = {}
        self.url = self._server.listen("127.0.0.1", 0, Entrance(find_session=self._sessions.get))

    @contextmanager
    def admit(self, session: AgentSession, key: str) -> Iterator[None]:
        """Inside, requests with `key` are the session's."""
        self._sessions[key] = session
        try:
            yield
        finally:
            del self._sessions[key]

    @contextmanager
    def open_socket(self, session: AgentSession) -> Iterator[Path]:
        """The session's socket: who reaches it needs no key."""
        socket = scratch_folder(for_sockets=True) / f"{secrets.token_hex(8)}.sock"
        self._server.open_socket(socket, Entrance.for_one(session))
        try:
            yield socket
        finally:
            self._server.close_socket(socket)

    def close(self) -> None:
        """Stop listening."""
        self._server.close()
