"""One line of a table of readings."""

from typing import NamedTuple

MALFORMED = None
"""The reading of a text in which a person finds no answer, or none in the grammar."""


class Row(NamedTuple):
    """A role, a text that it wrote, and the compact answer that a person reads in it."""

    role: str
    text: str
    reading: str | None
