"""Where the programs of a run find its gateways: at one address for as long as it lasts, or at a socket that a box leads to."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.gateway.server import Entrance, GatewayServer, Seat
from components.machine.closeable import Closeable
from components.machine.scratch import scratch_folder


class ProgramDoor(Closeable):
    """Admits sessions, each with its gateway, at `url`."""

    def __init__(self, *, num_at_once: int) -> None:
        """`num_at_once` answers are sampled at once."""
        self._server = GatewayServer(num_at_once=num_at_once)
        self._seats: dict[str, Seat] = {}
        self.url = self._server.listen("127.0.0.1", 0, Entrance(find_seat=self._seats.get))

    @contextmanager
    def admit(self, seat: Seat, key: str) -> Iterator[None]:
        """Inside, requests with `key` are those of the seat."""
        self._seats[key] = seat
        try:
            yield
        finally:
            del self._seats[key]

    @contextmanager
    def open_socket(self, seat: Seat) -> Iterator[Path]:
        """The seat's socket: who reaches it needs no key."""
        socket = scratch_folder(for_sockets=True) / f"{secrets.token_hex(8)}.sock"
        self._server.open_socket(socket, Entrance(find_seat=lambda key: seat))
        try:
            yield socket
        finally:
            self._server.close_socket(socket)

    def close(self) -> None:
        """Stop listening."""
        self._server.close()
