"""What an actor knows of its host, and the lease that ends it when its driver is gone."""

import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import Self

LEASE_SECONDS = 120.0
"""How long an actor waits for its driver's next word."""
_GIVE_UP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """The address by which a Ray node is known, and the network interface that has it."""

    address: str
    interface: str

    @classmethod
    def read(cls) -> Self:
        """That of this node. gloo and NCCL would take the interface that the host's name resolves to. Raises LookupError."""
        import psutil
        import ray

        address: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
        for name, found in psutil.net_if_addrs().items():
            if any(each.address == address for each in found):
                return cls(address, name)
        raise LookupError(f"no network interface of {socket.gethostname()} has Ray's address {address}")


class Lease:
    """Ends this process unless `renew` is called again and again, and gives up the placement group that it is in: then nobody
    wants what they hold any more."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._renewed = time.monotonic()
        threading.Thread(target=self._watch, name="lease", daemon=True).start()

    def renew(self) -> None:
        """Somebody still wants it."""
        self._renewed = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._renewed < self._seconds:
            time.sleep(min(1.0, self._seconds / 4))
        # A host that is cut off has nobody to tell: Ray waits for its head for ever.
        giving_up = threading.Thread(target=remove_own_group, name="give up", daemon=True)
        giving_up.start()
        giving_up.join(_GIVE_UP_SECONDS)
        os._exit(0)


def remove_own_group() -> None:
    """Give up the placement group of this actor, with all that is in it."""
    from ray.util.placement_group import get_current_placement_group, remove_placement_group

    group = get_current_placement_group()
    if group is not None:
        remove_placement_group(group)
