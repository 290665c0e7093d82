"""The grammar of answers whose moves are two characters, as `ab` or `13`. Text is matched and never evaluated."""

import re
from functools import cache

from components.environments.shared.json_text import shown
from components.errors import MalformedAction


def parse_pairs(text: str, *, first: str, second: str, max_pairs: int, expected: str) -> tuple[str, ...]:
    """The moves of an answer: each a character of `first`, then one of `second`.

    Between two moves stands nothing, spaces or one comma; one pair of brackets may enclose all; no move at all is an answer
    too. Raises MalformedAction, saying what was `expected`, on anything else and on more than `max_pairs`.

    **Example** `"[ab, b0]"` is `("ab", "b0")`.
    """
    whole, one = _patterns(first, second)
    if not whole.fullmatch(text.strip(" \n\r\t")):
        raise MalformedAction(f"{shown(text)} is not a list of {expected}")
    pairs: list[str] = one.findall(text)
    if len(pairs) > max_pairs:
        raise MalformedAction(f"{len(pairs)} moves; at most {max_pairs} are allowed")
    return tuple(pairs)


@cache
def _patterns(first: str, second: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    one = f"[{first}][{second}]"
    listed = f"{one}(?:(?: *, *| +)?{one})*"
    return re.compile(rf"\[ *(?:{listed} *)?\]|(?:{listed})?"), re.compile(one)
