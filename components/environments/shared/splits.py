"""The split of a problem, and the order of a split's rows."""

import hashlib
import logging
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

from components.environments.base import Split
from components.environments.shared.text import shorten
from components.identity import canonical_json, seed_for

_ONE_IN = 5
_log = logging.getLogger("troupe.environments.data")


def split_of(deciding: Any) -> Split:
    """The split of the problems whose right answers are decided by `deciding`, as JSON; one in five is a test problem.

    For a puzzle it is the part of the board that never changes, so no state of a train puzzle is a state of a test puzzle.
    """
    digest = hashlib.sha256(canonical_json(deciding)).digest()
    return "test" if int.from_bytes(digest[:8], "big") % _ONE_IN == 0 else "train"


def divide_rows(statements: Sequence[str], contents: Sequence[str] | None = None) -> Mapping[Split, tuple[int, ...]]:
    """The positions of each split's rows in a table for both, divided by statement; of equal contents (None: the statements)
    only the first."""
    first: dict[str, int] = {}
    for position, content in enumerate(statements if contents is None else contents):
        first.setdefault(content, position)
    sides = {position: split_of({"statement": statements[position]}) for position in first.values()}
    return {side: tuple(at for at in sides if sides[at] == side) for side in ("train", "test")}


def train_without_test(train: Sequence[str], test: Sequence[str]) -> tuple[int, ...]:
    """The positions in `train` of the rows to keep, in order: without duplicates and test rows. Logs how many were dropped.

    **Example** train (a, b, a, c), test (c, d): keep (0, 1).
    """
    held_out, kept = frozenset(test), dict[str, int]()
    for position, row in enumerate(train):
        if row not in held_out:
            kept.setdefault(row, position)
    if num_dropped := sum(row in held_out for row in train):
        _log.info("%d train problems, %d dropped because the test split has them too", len(kept), num_dropped)
    return tuple(kept.values())


def tell_of_contradictions(named: str, rows: Iterable[tuple[str, str]]) -> None:
    """Log a warning if rows (what is asked, its answer) ask the same and have different answers."""
    first, contradicted = dict[str, str](), dict[str, tuple[str, str]]()
    for asked, answer in rows:
        if first.setdefault(asked, answer) != answer:
            contradicted.setdefault(asked, (first[asked], answer))
    if contradicted:
        asked, (kept, other) = next(iter(contradicted.items()))
        _log.warning(
            "%s: rows that ask the same have different answers (%d): %r has %r and %r; correct them",
            named,
            len(contradicted),
            shorten(" ".join(asked.split()), 60),
            shorten(kept, 40),
            shorten(other, 40),
        )


def shuffle_index(index: int, *, num_rows: int, seed: int, split: str) -> int:
    """Row `index` of an endless walk over all rows, in a new order in each epoch.

    **Example** with 3 rows, indices 0 to 2 give some order of (0, 1, 2), and 3 to 5 another one.
    """
    assert num_rows > 0, f"{split} has no rows"
    epoch, place = divmod(index, num_rows)
    return _permutation(num_rows, seed, split, epoch)[place]


@lru_cache(maxsize=16)
def _permutation(num_rows: int, seed: int, split: str, epoch: int) -> Sequence[int]:
    order = list(range(num_rows))
    Random(seed_for(seed, "rows", split, epoch)).shuffle(order)
    return array("L", order)
