"""Ports of this machine: the usual one where it is free, else one that the system picks."""

import socket
from collections.abc import Mapping
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


def choose_ports(*choices: Mapping[str, int]) -> dict[str, int]:
    """One free port for each name, all different: the first of `choices` that is free, else one of the system's.

    **Example** `choose_ports({"s3": 40001}, {"s3": 8333})`: the port of the last start if it is free, else the default,
    else any. A choice of 0 asks for any.
    """
    names = dict.fromkeys(name for choice in choices for name in choice)
    with ExitStack() as held:
        return {name: _bound(held, [choice.get(name, 0) for choice in choices]) for name in names}


def _bound(held: ExitStack, wanted: list[int]) -> int:
    """The first port of `wanted`, then any, that can be bound; it stays bound until `held` closes."""
    for port in [port for port in wanted if port] + [0]:
        probe = held.enter_context(socket.socket())
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            continue
        probe.listen(1)
        return int(probe.getsockname()[1])
    raise AssertionError("the system gives no free port")
