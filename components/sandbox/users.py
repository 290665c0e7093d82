"""User numbers of boxes: one for each on this machine, so that they share nothing that the kernel counts by user."""

import hashlib
import itertools
import os
from pathlib import Path

from components.processes import this_process

RANGE = range(0x7000_0000, 0x7FFE_0000)
"""Numbers that no system gives to users, containers or services, and that are mapped wherever all are."""
_numbers = itertools.count()


def next_box_uid() -> int:
    """A number for one more box of this process. Others have other ones: equal ones are drawn once in 268 million."""
    digest = hashlib.sha256(f"{this_process()}-{next(_numbers)}".encode()).digest()
    return RANGE[int.from_bytes(digest[:8], "big") % len(RANGE)]


def can_choose_users(uid_map: Path = Path("/proc/self/uid_map")) -> bool:
    """Whether this process can start others as any user of `RANGE`: as root, where these users exist."""
    if os.geteuid() != 0:
        return False
    spans = [[int(word) for word in line.split()] for line in uid_map.read_text().splitlines()]
    return any(first <= RANGE.start and RANGE.stop <= first + count for first, _, count in spans)


def in_words(*, own: bool) -> str:
    """How a `SandboxDescription` tells it."""
    return "one of its own" if own else "one for all boxes: they share what the kernel counts by user"
