"""The list of moves in an answer that reasons first, as a reader sees it."""

import re
from collections import deque
from functools import cache

from components.environments.games.parsing import MoveList, patterns
from components.environments.shared.answer_extraction import check_is_meant, is_joined, label_ends, last_match
from components.errors import MalformedAction

LIST_ENDING = "the last list of moves, in brackets as in the example."
PROGRAM_ENDING = "the last ```python block, with the whole program."
"""How answers that reason first end, for the instructions."""
_QUOTES = "[\"'`“”‘’]*+"
_GAP = r"(?:[\s,;|→⇒、，]|->)"
_GAP_IN_LINE = r"(?:[ \t,;|→⇒、，]|->)"
_MARKUP = r"[*_`~$()]*+"
_MARGIN = r"[ \t]*+(?:>[ \t]*+)*+"
_LOOSE = ("line", "stack", "column")
"""Lists that nothing marks as an answer."""
_LOOK_BACK = 200
_MENTION = re.compile(
    r"[A-Za-z\u00c0-\u024f][^\n.;:!?=\[\]{}。]{0,80}(?<!\bis)(?<!\bare)(?<!\bist)(?<!\best)(?<!\bes)[ \t(\"'`*_]+\Z"
)
"""Words before a list that do not end in a colon or "is"."""
_SENTENCE = re.compile(r"[ \t)\"'`*_,]*+(?!because\b|since\b|as\b)[A-Za-z\u00c0-\u024f]")
_REASON = re.compile(r"\b(?:because|since|as)\b")
_THEN = r"(?i:and|then|finally|next|lastly|plus|\+)"
_ITEM = r"(?:[-*+•][ \t]++|\d{1,3}[.):][ \t]++|[*_]*+(?i:step|move)[ \t]++\d{1,3}[.):][*_ \t]*+)?+"


def final_moves(text: str, moves: MoveList) -> str:
    r"""The last list of `text` in the grammar `moves`; `text` itself without one.

    A list stands in brackets, `\boxed{}` or `<answer>` tags, behind a label such as "Answer:", or alone on a line; without any,
    a list with one move per line counts, as "1. U" or "Step 1: U". In a grammar with separators, whose lists look like the rows
    of a board, lines count only without any other list. A last list in brackets or behind a label that has a move and something
    else is returned, to be refused, and none before it is played.

    Raises MalformedAction if the text says that the last list is not meant, goes on, or is one of two answers.

    **Example** `"[U] hits a wall, so:\n**[R, U]**\nHope this helps!"` is `"R, U"`.
    """
    whole, part = patterns(moves.move, moves.is_separated)
    if whole.fullmatch(text.strip(" \n\r\t")):
        return text
    *kinds, behind_label = list_patterns(moves.move, moves.is_separated)
    earlier, marked = (None, None, *deque(kinds[0].finditer(text), maxlen=2))[-2:]
    column = last_match(kinds[1], text)
    found = marked or column
    labels = {start: told for start in label_ends(text, of_moves=True) if (told := behind_label.match(text, start))}
    for start, told in labels.items():
        if marked is not None and start < marked.start():
            break
        in_column = column is not None and column.start() <= start < column.end()  # "Step 1: U" is a line of a list
        found, earlier = (column, earlier) if in_column else (told, marked)
        break
    if found is None:
        return text
    if found.lastgroup in ("empty", "alike", "broken"):
        return found["broken"] if found.lastgroup == "broken" else found[0]
    answers = [labels[start] for start in label_ends(text) if start in labels]
    beside = [each for each in (earlier, column, *labels.values()) if each is not None]
    check_is_meant(text[: found.start()], text[found.end() :])
    _check_has_ended(text[found.end() :], moves.move, in_line=found.lastgroup == "label")
    _check_is_last(text, found, beside, answers, part)
    return ", ".join(_moves_in(found, part))


def _moves_in(found: re.Match[str], part: re.Pattern[str]) -> list[str]:
    return part.findall(found[str(found.lastgroup)])


def _check_has_ended(after: str, move: str, *, in_line: bool) -> None:
    """Raise MalformedAction if moves follow a list: behind a label in the same line, or in a next line that begins "then"."""
    line, _, rest = after.partition("\n")
    if in_line and re.search(rf"\b{move}\b", _REASON.split(line, maxsplit=1)[0]):
        raise MalformedAction("more moves follow the list")
    if re.match(rf"\s*+{_THEN}\b[^\n.]{{0,30}}\b{move}\b", rest):
        raise MalformedAction("more moves follow the list in the next line")


def _check_is_last(
    text: str, found: re.Match[str], beside: list[re.Match[str]], answers: list[re.Match[str]], part: re.Pattern[str]
) -> None:
    """Raise MalformedAction if `found` is only mentioned, or if another list belongs to it or was called the answer."""
    start, moves = found.start(), _moves_in(found, part)
    is_loose = found.lastgroup in _LOOSE or (
        found.lastgroup == "label" and start not in {each.start() for each in answers}
    )
    is_mention = not is_loose and _MENTION.search(text[max(0, start - _LOOK_BACK) : start]) is not None
    if is_mention and _SENTENCE.match(text, found.end()):
        raise MalformedAction("the list is only mentioned")
    if (is_loose or is_mention) and any(each.start() < start and _moves_in(each, part) != moves for each in answers):
        raise MalformedAction("another list follows the answer")
    for other in beside:
        if other.start() < start and _moves_in(other, part) != moves and is_joined(text[other.end() : start]):
            raise MalformedAction("two lists, one after the other")


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
