"""The grammar of the games' answers. Text is matched against a pattern and never evaluated."""

import re
from collections import deque
from dataclasses import dataclass
from functools import cache

from components.environments.shared.answer_extraction import (
    MAX_CANDIDATES,
    Candidate,
    boxes,
    find_labelled,
    last_lines,
    last_meant,
    strip_bullet,
)
from components.environments.shared.text import quote_start
from components.errors import MalformedAction

MOVES = "UDLR"
"""Up, down, left, right."""
SYMBOLS = "123456789ABCDEFG"
"""The symbols of 1 to 16: rows, columns and values of a Sudoku up to 16x16."""
LIST_ENDING = "the last list of moves, in brackets as in the example."
"""How answers that reason first end, for the instructions."""
_BRACKETS = re.compile(r"\[([^\[\]\\]*+(?:\\(?!\])[^\[\]\\]*+)*+)\\?\]")
"""Or a display of LaTeX."""
_LABEL_WORDS = r"(?:moves?|steps?)(?! \d)|list|path|plan|placements?|final|solution|result|output"
_GAPS = re.compile(
    r"(?:[\s,;|→⇒、，]|->|\\(?:boxed|text(?:bf|it|rm)?|math(?:bf|rm)|rightarrow|to|quad)(?![a-z])|\\[,; ])++"
)
_MARKS = "*_`~$(){}\"'“”‘’"
_ITEM = re.compile(r"(?:step|move) \d{1,3}[.):]", re.IGNORECASE)
_LOOK_BACK = 200
_MENTION = re.compile(r"[A-Za-zÀ-ɏ][^\n.;:!?=\[\]{}。]{0,80}(?<!\bis)(?<!\bare)(?<!\bist)(?<!\best)[ \t(\"'`*_]+\Z")
"""Words before a list in brackets that do not end in a colon or "is"."""
_SENTENCE = re.compile(r"[ \t)\"'`*_,]*+(?!because\b|since\b|as\b)[A-Za-zÀ-ɏ]")


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
            raise MalformedAction(f"{quote_start(text)} is not a list of {self.expected}")
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


def final_moves(text: str, moves: MoveList) -> str:
    r"""The last list of `text` in the grammar `moves`; `text` itself without one.

    A list stands in brackets, `\boxed{}` or `<answer>` tags, behind a label such as "Answer:", or alone on a line, or with one
    move per line. In a grammar with separators, whose lists look like the rows of a board, lines count only without any other
    list. A last list that has a move and something else is returned, to be refused, and none before it is played.

    Raises MalformedAction if the text says that the last list is not meant, goes on, or is one of two answers.

    **Example** `"[U] hits a wall, so:\n**[R, U]**\nHope this helps!"` is `"R, U"`.
    """
    if patterns(moves.move, moves.is_separated)[0].fullmatch(text.strip(" \n\r\t")):
        return text
    last = last_meant(text, _lists(text, moves))
    if last is None:
        return text
    line, _, rest = text[last.end :].partition("\n")
    is_marked, move = text[last.start] in "[\\", rf"\b{moves.move}\b"
    if is_marked and last.is_loose and _SENTENCE.match(line):
        raise MalformedAction("the list is only mentioned")
    in_line = not is_marked and re.search(move, re.split(r"\b(?:because|since|as)\b", line, maxsplit=1)[0])
    if in_line or re.match(rf"\s*+(?i:and|then|finally|next|lastly|plus|\+)\b[^\n.]{{0,30}}{move}", rest):
        raise MalformedAction("more moves follow the list")
    return last.content


def _lists(text: str, moves: MoveList) -> list[Candidate]:
    """The lists of `text`. One that is only mentioned, alone on a line or without a word for answers is loose."""
    brackets = (Candidate(each[1], *each.span()) for each in deque(_BRACKETS.finditer(text), maxlen=MAX_CANDIDATES))
    found = [
        each._replace(content=told, is_loose=each.is_loose or _is_mentioned(text, each))
        for each in (*brackets, *boxes(text), *find_labelled(text, words=_LABEL_WORDS, with_remark=False))
        if (told := _list(each.content, moves) if each.content else "") is not None
    ]
    lines = last_lines(text, lambda line: _list_in_line(line, moves, may_be_item=not found))
    if lines is None:
        return found
    nums_moves = [len(re.findall(moves.move, line)) for line in lines.content.split("\n")]
    if moves.is_separated or len(nums_moves) == 1 or max(nums_moves) == 1:  # else a list in each line, which is refused
        lines = lines._replace(content=_list(lines.content, moves) or "")
    for place, each in enumerate(found):
        if lines.start <= each.start < lines.end:  # a list that begins below "Answer:"
            found[place] = each._replace(content=lines.content, end=lines.end)
    return found if found and moves.is_separated else [*found, lines]


def _is_mentioned(text: str, found: Candidate) -> bool:
    before = max(0, found.start - _LOOK_BACK)
    return text[found.start] == "[" and _MENTION.search(text, before, found.start) is not None


def _list_in_line(line: str, moves: MoveList, *, may_be_item: bool) -> str | None:
    plain = _ITEM.sub("", strip_bullet(line), count=1) if may_be_item else line
    part = plain.strip(" >*_`~.,;!。")
    return part if "\\" not in part and _list(part, moves, is_whole=True) else None


def _list(part: str, moves: MoveList, *, is_whole: bool = False) -> str | None:
    """A list as the grammar spells it; unless `is_whole`, as it stands if words between its commas are no moves; else None."""
    whole, move = patterns(moves.move, moves.is_separated)
    words = [word for each in _GAPS.split(part) if (word := each.strip(_MARKS))] if "[" not in part else []
    if words and whole.fullmatch(", ".join(words)):
        return ", ".join(move.findall(", ".join(words)))
    is_broken = 1 < len(words) == part.count(",") + 1 and any(map(move.fullmatch, words))
    return part if is_broken and not is_whole else None
