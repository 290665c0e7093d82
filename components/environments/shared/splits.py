"""Which split a puzzle belongs to, decided by its content."""

import hashlib
from collections.abc import Mapping
from typing import Any

from components.environments.base import Split
from components.identity import canonical_json

_ONE_IN = 5


def split_of(board: Mapping[str, Any]) -> Split:
    """The split of every puzzle on `board`, the part of a puzzle that play never changes: one board in five is for tests.

    Two puzzles of different splits therefore differ in their boards, and no state met while playing a train puzzle is a
    state of a test puzzle.
    """
    digest = hashlib.sha256(canonical_json(board)).digest()
    return "test" if int.from_bytes(digest[:8], "big") % _ONE_IN == 0 else "train"
