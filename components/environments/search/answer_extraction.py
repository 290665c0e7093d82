"""The marked lines of an answer that reasons first, as a reader sees them."""

from components.environments.search.grammar import ANSWER, ASK, NOTE, SEARCH
from components.environments.shared.answer_extraction import (
    MAX_LINES,
    check_is_meant,
    is_joined,
    label_ends,
    unbulleted,
)
from components.errors import MalformedAction

LINES_ENDING = "the last marked lines, with at most blank lines between them."
"""How an answer that reasons first ends, for the instructions."""
_MAX_LABEL = 60
_MAX_LINE = 1000


def final_lines(text: str, *, answers: bool, max_lines: int) -> str:
    """The last lines of `text` with marks, those of the reasoner if `answers`, else the searcher's; `text` itself without any.

    Markdown around a line is left out, and a line that begins "Final answer:" or alike is an answer. Headings (`### words`)
    are sub-questions only where no other line is marked. More than `max_lines` lines are too many, as without reasoning.

    Raises MalformedAction if the text says that the lines are not meant.

    **Example** `"### Result\\n= Rome\\nNo, wait.\\n**= Oslo**"` is `"= Oslo"`.
    """
    marked, places, lines = list[str](), list[int](), text.splitlines()[-MAX_LINES:]
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if not line or line.isspace() or line.startswith("```"):
            continue
        if (mark := _marked(line, answers=answers)) is not None:
            marked.append(mark)
            places.append(number)
        elif marked:
            break
        if len(marked) > 2 * max_lines:
            break
    if not marked:
        return text
    before, after = "\n".join(lines[: places[-1]]), "\n".join(lines[places[0] + 1 :])
    check_is_meant(before + "\n", after)
    last = before.rstrip().rpartition("\n")[2]
    if is_joined(last) and any(map(str.isalpha, last)):
        raise MalformedAction("marked lines that go on, or are alternatives to, those before them")
    spoken = [line for line in marked if not line.startswith("###")] or marked
    return "\n".join(reversed(spoken))


def _marked(line: str, *, answers: bool) -> str | None:
    """The line as the grammar has it; None if it has no mark."""
    if not any(mark in line for mark in "?=:：#"):
        return None
    plain = unbulleted(line)
    if not answers:
        return plain if NOTE.fullmatch(plain) or SEARCH.fullmatch(plain) else None
    if ASK.fullmatch(plain) or ANSWER.fullmatch(plain):
        return plain
    if len(plain) > _MAX_LINE:
        return None
    *_, start = (_MAX_LINE, *label_ends(plain))
    return f"= {plain[start:]}" if start <= _MAX_LABEL and {":", "："} & set(plain[:start]) else None
