"""The grammars of the games' answers. Text is matched against a pattern and never evaluated."""

import re
from functools import cache

from components.environments.shared.text import shown
from components.errors import MalformedAction

MOVES = "UDLR"
"""Up, down, left, right."""
SYMBOLS = "123456789ABCDEFG"
"""What stands for 1 to 16: rows, columns and values of a Sudoku up to 16x16."""


def parse_moves(text: str, *, max_moves: int) -> str:
    """The moves of an answer in compact form.

    Moves are U, D, L and R, with nothing, spaces or one comma between two of them, optionally in one pair of brackets;
    no move at all is an answer too. Raises MalformedAction otherwise, and on more than `max_moves` moves.

    **Example** `"[U, U R]"` is `"UUR"`.
    """
    if not text.strip(MOVES) and len(text) <= max_moves:
        return text
    return "".join(_listed(text, f"[{MOVES}]", at_most=max_moves, expected=f"moves from {MOVES}"))


def parse_placements(text: str, *, size: int, max_placements: int) -> tuple[str, ...]:
    """The placements of an answer, each as row, column and value in one symbol each.

    Between two placements stand spaces or one comma; one pair of brackets may enclose all; no placement at all is an
    answer too. Raises MalformedAction otherwise, and on more than `max_placements`.

    **Example** `"[123, 214]"` is `("123", "214")`: row 1, column 2 holds 3; row 2, column 1 holds 4.
    """
    expected = f"row, column and value from {SYMBOLS[:size]}"
    one = f"[{SYMBOLS[:size]}]{{3}}"
    return tuple(_listed(text, one, at_most=max_placements, expected=expected, called="placements", apart=True))


def parse_pairs(text: str, *, first: str, second: str, max_pairs: int, expected: str) -> tuple[str, ...]:
    """The moves of an answer: each a character of `first`, then one of `second`, listed as in `parse_moves`.

    Raises MalformedAction, saying what was `expected`, on anything else and on more than `max_pairs`.

    **Example** `"[ab, b0]"` is `("ab", "b0")`.
    """
    return tuple(_listed(text, f"[{first}][{second}]", at_most=max_pairs, expected=expected))


def _listed(
    text: str, one: str, *, at_most: int, expected: str, called: str = "moves", apart: bool = False
) -> list[str]:
    """The parts of a list of what the pattern `one` matches; `apart` asks for something between two of them."""
    whole, part = patterns(one, apart)
    if not whole.fullmatch(text.strip(" \n\r\t")):
        raise MalformedAction(f"{shown(text)} is not a list of {expected}")
    found: list[str] = part.findall(text)
    if len(found) > at_most:
        raise MalformedAction(f"{len(found)} {called}; at most {at_most} are allowed")
    return found


@cache
def patterns(one: str, apart: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The pattern of a whole answer and that of one of its parts."""
    listed = f"{one}(?:(?: *, *| +){'' if apart else '?'}{one})*"
    return re.compile(rf"\[ *(?:{listed} *)?\]|(?:{listed})?"), re.compile(one)
