"""User numbers of boxes: one per box, so that boxes share nothing that the kernel counts per user."""

import hashlib
import itertools
import os
from pathlib import Path

from components.machine.process_ids import this_process

RANGE = range(0x7000_0000, 0x7FFE_0000)
"""Numbers that no system assigns to users, containers or services, and that are mapped wherever all numbers are."""
_numbers = itertools.count()


def next_box_uid() -> int:
    """A number for a new box of this process. Two boxes get the same one with probability 1 in 268 million."""
    digest = hashlib.sha256(f"{this_process()}-{next(_numbers)}".encode()).digest()
    return RANGE[int.from_bytes(digest[:8], "big") % len(RANGE)]


def can_choose_users(uid_map: Path = Path("/proc/self/uid_map")) -> bool:
    """Whether this process can start others as any user of `RANGE`: root, in a user namespace that maps them."""
    if os.geteuid() != 0:
        return False
    spans = [[int(word) for word in line.split()] for line in uid_map.read_text(encoding="utf-8").splitlines()]
    return any(first <= RANGE.start and RANGE.stop <= first + count for first, _, count in spans)


def in_words(*, own: bool) -> str:
    """The words for a `SandboxDescription`."""
    return "one of its own" if own else "one for all boxes: they share what the kernel counts by user"
