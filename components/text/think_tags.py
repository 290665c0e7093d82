"""The thinking of a model, which stands before its answer and is never read as part of it."""

import re

from components.errors import MalformedAction

OPENING, CLOSING = "<think>", "</think>"
"""The tags of DeepSeek-R1, Qwen3, GLM and their like."""
_MARKS = re.compile(
    r"(?P<alone>^[ \t]*</think>[ \t]*$)|(?P<fence>^[ \t]*```(?P<language>[^`\n]*)$)|(?P<tag></?think>)"
    r"""|"[^"\n]*"|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)""",
    re.MULTILINE,
)
"""Tags, lines of ```, and quotations, whose tags are text."""
_QUOTED = "(?:</think>|(?:(?!</think>)[^{0}\\n])*)"
_END = re.compile(
    rf"""(?P<tag></think>)|"{_QUOTED.format('"')}"|`{_QUOTED.format("`")}`|(?<!\w)'{_QUOTED.format("'")}'(?!\w)"""
)
"""A closing tag, and quotations that hold none or one alone."""


def without_thinking(text: str) -> str:
    """`text` without what a model thought; unchanged if there is no tag.

    Thinking goes from `<think>` to the next `</think>`; where the prompt opened it, from the beginning to a `</think>` alone.
    Tags in quotes, backticks or a fenced block are text, except a closing tag that is a whole line. Where all ends of thinking
    are quoted, an odd quote before one, as in 5", may only seem to quote it: the first that is not quoted alone is the end.

    Raises MalformedAction for thinking that never ends, or that no answer follows.

    **Example** `"<think>U or D?</think> [U]"` and `"U or D?</think> [U]"` are `"[U]"`; `'print("<think>")'` stays.
    """
    if "think>" not in text:
        return text
    kept, start, place = list[str](), 0, 0
    is_fenced = has_thought = has_odd_quotes = False
    while mark := _MARKS.search(text, place):
        place = mark.end()
        if mark["fence"] is not None:
            is_fenced = not is_fenced or bool(mark["language"].strip())
        elif mark["alone"] is not None or (mark["tag"] == CLOSING and not is_fenced):
            kept.clear()
            start, has_thought, is_fenced = place, True, False
        elif mark["tag"] == OPENING and not is_fenced:
            kept.append(text[start : mark.start()])
            end = None if has_odd_quotes else _end_of_thinking(text, place)
            if end is None:
                end, has_odd_quotes = _end_behind_odd_quotes(text, place), True
            start = place = end
            has_thought = True
    if not has_thought:
        return text
    answer = "".join((*kept, text[start:])).strip()
    if not answer:
        raise MalformedAction("no answer follows the thinking")
    return answer


def _end_of_thinking(text: str, place: int) -> int | None:
    """Where the thinking at `place` ends, behind the first closing tag that is not quoted; None without one."""
    for mark in _MARKS.finditer(text, place):
        if mark["alone"] is not None or mark["tag"] == CLOSING:
            return mark.end()
    return None


def _end_behind_odd_quotes(text: str, place: int) -> int:
    for mark in _END.finditer(text, place):
        if mark["tag"] is not None:
            return mark.end()
    raise MalformedAction(f"thinking that never ends: {OPENING} without {CLOSING}")
