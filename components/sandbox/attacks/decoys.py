"""Targets of attacks on the host: a file with a secret, listening sockets, and facts that a box must not know."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from components.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bait:
    """Real objects of this machine. A program that reaches one has left its box."""

    secret: str
    """The content of `file`, which any user of the host may read."""
    file: Path
    addresses: tuple[str, ...]
    """Of this machine, loopback included; `port` listens on all of them."""
    port: int
    unix_socket: Path
    abstract_socket: str
    """Name in the abstract namespace, without its leading NUL."""
    vsock_port: int | None
    """A listening AF_VSOCK port; None if the kernel has no such sockets."""
    hostname: str
    pid: int
    """Of this process."""


_LONGEST_SOCKET_PATH = 107


@contextmanager
def laid_out(folder: Path) -> Iterator[Bait]:
    """Bait in `folder` (made if needed), with sockets that listen until the block ends.

    Raises ConfigurationError where the folder's path is too long for the name of a socket.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        port = int(tcp.getsockname()[1])
        file, unix_socket = folder / f"bait-{port}", folder / f"{port}.sock"
        num_bytes = len(os.fsencode(unix_socket))
        if num_bytes > _LONGEST_SOCKET_PATH:
            raise ConfigurationError(
                f"TROUPE_HOME: the socket {unix_socket} of an attack has a path of {num_bytes} bytes, and the system "
                f"allows {_LONGEST_SOCKET_PATH}: let TROUPE_HOME name a folder with a shorter path"
            )
        secret = f"TRP-BAIT-{os.getpid()}-{port}"
        stack.callback(file.unlink, missing_ok=True)
        file.write_text(secret, encoding="utf-8")
        file.chmod(0o644)
        stack.callback(unix_socket.unlink, missing_ok=True)
        for address in (str(unix_socket), f"\0{secret}"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(address)
            listener.listen()
        unix_socket.chmod(0o777)
        yield Bait(
            secret=secret,
            file=file.absolute(),
            addresses=_addresses(),
            port=port,
            unix_socket=unix_socket.absolute(),
            abstract_socket=secret,
            vsock_port=_vsock_listener(stack, port),
            hostname=socket.gethostname(),
            pid=os.getpid(),
        )


def _addresses() -> tuple[str, ...]:
    found = [address for addresses in psutil.net_if_addrs().values() for address in addresses]
    return tuple(dict.fromkeys(["127.0.0.1", *(each.address for each in found if each.family == socket.AF_INET)]))


def _vsock_listener(stack: ExitStack, port: int) -> int | None:
    with suppress(OSError, AttributeError):
        listener = stack.enter_context(socket.socket(socket.AF_VSOCK))
        listener.bind((socket.VMADDR_CID_ANY, port))
        listener.listen()
        return port
    return None
