"""The grammar of the games' answers. Text is matched against a pattern and never evaluated."""

import re
from dataclasses import dataclass
from functools import cache

from components.environments.shared.text import shown
from components.errors import MalformedAction

MOVES = "UDLR"
"""Up, down, left, right."""
SYMBOLS = "123456789ABCDEFG"
"""The symbols of 1 to 16: rows, columns and values of a Sudoku up to 16x16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveList:
    """Lists of moves that match the regular expression `move`; `expected` and `called` describe them in errors.

    Between two moves stand spaces or one comma, or nothing unless `is_separated`; one pair of brackets may enclose the list.
    """

    move: str
    expected: str
    called: str = "moves"
    is_separated: bool = False

    def parse(self, text: str, *, max_moves: int) -> tuple[str, ...]:
        """The moves of an answer, possibly none. Raises MalformedAction.

        **Example** `GRID_MOVES.parse("[U, U R]", max_moves=3)` is `("U", "U", "R")`.
        """
        if self is GRID_MOVES and not text.strip(MOVES) and len(text) <= max_moves:
            return tuple(text)  # most answers: no pattern is needed
        whole, part = patterns(self.move, self.is_separated)
        if not whole.fullmatch(text.strip(" \n\r\t")):
            raise MalformedAction(f"{shown(text)} is not a list of {self.expected}")
        found = tuple(part.findall(text))
        if len(found) > max_moves:
            raise MalformedAction(f"{len(found)} {self.called}; at most {max_moves} are allowed")
        return found


GRID_MOVES = MoveList(move=f"[{MOVES}]", expected=f"moves from {MOVES}")


@cache
def patterns(move: str, is_separated: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The pattern of a whole answer and that of one move."""
    listed = f"{move}(?:(?: *, *| +){'' if is_separated else '?'}{move})*"
    return re.compile(rf"\[ *(?:{listed} *)?\]|(?:{listed})?"), re.compile(move)
