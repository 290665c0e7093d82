"""The list of moves in an answer that reasons first, as a reader sees it."""

import re
from functools import cache

from components.environments.games.parsing import MoveList, patterns
from components.environments.shared.reading import label_ends, last_match

LIST_ENDING = "the last list of moves, in brackets as in the example."
PROGRAM_ENDING = "the last ```python block, with the whole program."
"""How answers that reason first end, for the instructions."""
_QUOTES = "[\"'`“”‘’]*+"
_GAP = r"(?:[\s,;|→⇒、，]|->)"
_GAP_IN_LINE = r"(?:[ \t,;|→⇒、，]|->)"
_MARKUP = r"[*_`~$()]*+"
_MARGIN = r"[ \t]*+(?:>[ \t]*+)*+"
_ITEM = r"(?:[-*+•][ \t]++|\d{1,3}[.):][ \t]++|[*_]*+(?i:step|move)[ \t]++\d{1,3}[.):][*_ \t]*+)?+"


def final_moves(text: str, moves: MoveList) -> str:
    r"""The last list of `text` in the grammar `moves`; `text` itself without one.

    A list stands in brackets, `\boxed{}` or `<answer>` tags, behind a label such as "Answer:", or alone on a line; without any,
    a list with one move per line counts, as "1. U" or "Step 1: U". In a grammar with separators, whose lists look like the rows
    of a board, lines count only without any other list. A last list in brackets or behind a label that has a move and something
    else is returned, to be refused, and none before it is played.

    **Example** `"[U] hits a wall, so:\n**[R, U]**\nHope this helps!"` is `"R, U"`.
    """
    whole, part = patterns(moves.move, moves.is_separated)
    if whole.fullmatch(text.strip(" \n\r\t")):
        return text
    *kinds, behind_label = list_patterns(moves.move, moves.is_separated)
    marked, column = (last_match(pattern, text) for pattern in kinds)
    for start in label_ends(text, of_moves=True):
        if marked is not None and start < marked.start():
            break
        if column is not None and column.start() <= start < column.end():  # "Step 1: U" is a line of a list
            return ", ".join(part.findall(column["column"]))
        if (told := behind_label.match(text, start)) is not None:
            return told["broken"] or ", ".join(part.findall(told["label"]))
    found = marked or column
    if found is None:
        return text
    is_list = found.lastgroup not in ("empty", "alike")
    return ", ".join(part.findall(found[str(found.lastgroup)])) if is_list else found[0]


@cache
def list_patterns(move: str, is_separated: bool) -> tuple[re.Pattern[str], ...]:
    """The patterns of lists on their own, of lists with a move per line, and of a list behind a label. The list is in the one
    named group that matched.

    All quantifiers that could overlap are possessive, so that each takes linear time.
    """
    one = f"{_QUOTES}{move}{_QUOTES}"
    gap, gap_in_line = (f"{each}{'++' if is_separated else '*+'}" for each in (_GAP, _GAP_IN_LINE))
    listed = f"{_GAP}*+{one}(?:{gap}{one})*+{_GAP}*+"
    in_line = f"{one}(?:{gap_in_line}{one})*+"
    word = rf"{_QUOTES}\w{{1,10}}{_QUOTES}"
    alike = rf"\[(?=[^\[\]]*\b{move}\b)\s*+{word}(?:\s*+,\s*+{word})++\s*+\]"
    broken = rf"(?P<broken>(?=[^\n]*\b{move}\b){word}(?:[ \t]*+,[ \t]*+{word})++(?=[ \t.!]*+$))"
    brackets = rf"\[(?P<bracket>{listed})\]|(?P<empty>\[\])|(?P<alike>{alike})"
    boxes = rf"\\boxed\{{(?:\\text\{{)?(?P<box>{listed})\}}|<answer>(?P<tag>{listed})</answer>"
    ended = rf"[.;:!?。]|,(?![ \t]*+{word}[ \t,.]*+$)|$|(?:because|since|as)\b"
    after = rf"(?=[ \t]*+{_MARKUP}[ \t]*+(?:{ended}))"
    behind_label = rf"{_MARKUP}(?:(?P<label>{in_line}){after}|{broken})"
    end = rf"[ \t]*+{_MARKUP}[.,;!。]*+{_MARKUP}[ \t]*+$"
    stacked = rf"(?P<stack>(?:^{_MARGIN}{_MARKUP}{one}{end}(?:\n|\Z)){{2,}}+)"
    line = rf"{stacked}|^{_MARGIN}{_MARKUP}(?P<line>{in_line}){end}"
    column = rf"(?P<column>(?:^{_MARGIN}{_ITEM}{_MARKUP}{in_line}{end}(?:\n\s*+|\Z))++)"
    marked = f"{brackets}|{boxes}" if is_separated else f"{brackets}|{boxes}|{line}"
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in (marked, column, behind_label))
