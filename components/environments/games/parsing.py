"""The grammars of the games' answers. Text is matched against a pattern and never evaluated."""

import re
from functools import cache

from components.errors import MalformedAction

MOVES = "UDLR"
"""Up, down, left, right."""
SYMBOLS = "123456789ABCDEFG"
"""What stands for 1 to 16: rows, columns and values of a Sudoku up to 16x16."""

_SHOWN_CHARACTERS = 60


def parse_moves(text: str, *, max_moves: int) -> str:
    """The moves of an answer in compact form.

    Moves are U, D, L and R, with nothing, spaces or one comma between two of them, optionally in one pair of brackets;
    no move at all is an answer too. Raises MalformedAction otherwise, and on more than `max_moves` moves.

    **Example** `"[U, U R]"` is `"UUR"`.
    """
    moves = text if not text.strip(MOVES) else "".join(_matched(text, MOVES, separated=False))
    if len(moves) > max_moves:
        raise MalformedAction(f"{len(moves)} moves; at most {max_moves} are allowed")
    return moves


def parse_placements(text: str, *, size: int, max_placements: int) -> tuple[str, ...]:
    """The placements of an answer, each as row, column and value in one symbol a piece.

    Between two placements stand spaces or one comma; one pair of brackets may enclose all; no placement at all is an
    answer too. Raises MalformedAction otherwise, and on more than `max_placements`.

    **Example** `"[123, 214]"` is `("123", "214")`: row 1, column 2 holds 3; row 2, column 1 holds 4.
    """
    placements = _matched(text, SYMBOLS[:size], separated=True)
    if len(placements) > max_placements:
        raise MalformedAction(f"{len(placements)} placements; at most {max_placements} are allowed")
    return tuple(placements)


def _matched(text: str, characters: str, *, separated: bool) -> list[str]:
    whole, one = _patterns(characters, separated)
    if not whole.fullmatch(text.strip(" \n\r\t")):
        shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
        expected = f"row, column and value from {characters}" if separated else f"moves from {characters}"
        raise MalformedAction(f"{shown!r} is not a list of {expected}")
    return one.findall(text)


@cache
def _patterns(characters: str, separated: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The pattern of a whole answer and that of one of its parts."""
    one = f"[{characters}]" + ("{3}" if separated else "")
    separator = "(?: *, *| +)" + ("" if separated else "?")
    listed = f"{one}(?:{separator}{one})*"
    return re.compile(rf"\[ *(?:{listed} *)?\]|(?:{listed})?"), re.compile(one)
