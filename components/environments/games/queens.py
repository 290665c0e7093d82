"""Queens that do not attack each other, one per row. A full board is a tuple with each row's column, counted from 0."""

from collections.abc import Iterator, Sequence
from functools import cache

Columns = tuple[int, ...]


@cache
def solutions(size: int) -> tuple[Columns, ...]:
    """Every way to place `size` queens such that none attacks another, in lexical order.

    **Example** size 4: (1, 3, 0, 2) and (2, 0, 3, 1); size 8 has 92.
    """
    return tuple(_completed((), size))


def _completed(columns: Columns, size: int) -> Iterator[Columns]:
    if len(columns) == size:
        yield columns
        return
    row = len(columns)
    for column in range(size):
        if not any(attacks(row, column, other, held) for other, held in enumerate(columns)):
            yield from _completed((*columns, column), size)


def attacks(row: int, column: int, other_row: int, other_column: int) -> bool:
    """Whether queens on two different squares attack each other."""
    down, right = abs(row - other_row), abs(column - other_column)
    return (down, right) != (0, 0) and (down == 0 or right == 0 or down == right)


def num_attacked(columns: Sequence[int | None]) -> int:
    """The number of attacked queens on a partly filled board."""
    placed = [(row, column) for row, column in enumerate(columns) if column is not None]
    return sum(any(attacks(*square, *other) for other in placed) for square in placed)
