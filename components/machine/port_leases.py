"""Ports of this machine that one holder has reserved, before anything listens on them.

A lease is a lock on a file by the port's number in this user's private folder. The system drops it however its process
ends, so that no lease outlives a crash, and two holders, in one process or in two, never share one.
"""

import fcntl
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from components.errors import ConfigurationError
from components.machine.scratch import private_folder

HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class PortLease:
    """A reserved port, until `release` or the end of this process."""

    port: int
    descriptor: int

    def release(self) -> None:
        """Let others have the port. Harmless when it is released already."""
        with suppress(OSError):
            os.close(self.descriptor)


def lease_port(first: int, *, num_tries: int = 200, folder: Path | None = None) -> PortLease:
    """The first port from `first` on that nobody has reserved and nothing listens on.

    Raises ConfigurationError if none of `num_tries` is free.

    **Example** two calls with 8001 on an idle machine: 8001 and 8002.
    """
    place = folder or private_folder("troupe-ports")
    last = min(first + num_tries - 1, HIGHEST_PORT)
    for port in range(first, last + 1):
        descriptor = os.open(place / f"{port}.lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            continue
        if is_free(port):
            return PortLease(port, descriptor)
        os.close(descriptor)
    raise ConfigurationError(f"port {first}: no port of {first} to {last} is free; use another base_port")


def is_free(port: int) -> bool:
    """Whether nothing on this machine listens on the port, on any of its addresses."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a closed connection that lingers takes no port
        try:
            tried.bind(("", port))
        except OSError:
            return False
    return True
