"""The plan or the calls in an answer that reasons first, as a reader sees them."""

import re
from collections.abc import Iterator
from functools import cache

from components.environments.shared.answer_extraction import MAX_LINES, check_is_meant, is_joined, unbulleted
from components.environments.stateful.tool_world import STEP_SEPARATOR
from components.errors import MalformedAction

PLAN_ENDING = "the last steps, on one line or one a line."
CALLS_ENDING = "the last JSON list of calls."
"""How answers that reason first end, for the instructions."""
_MAX_STEP_LINE = 2000
_COLON = re.compile("[:：]")
_MARKUP = str.maketrans("", "", "*`")
_REMARK = re.compile(r"(?<=\S) {1,8}\([^()]*\)\s*\Z")
_SPACE = r"[ \t\r\n]*+"
_TEXT = r'"(?:[^"\\\n]|\\.)*+"'
_SCALAR = rf"(?:{_TEXT}|-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?|true|false|null)"


def _list_of(value: str) -> str:
    return rf"\[{_SPACE}(?:{value}{_SPACE}(?:,{_SPACE}{value}{_SPACE})*+)?+\]"


def _object_of(value: str) -> str:
    member = rf"{_TEXT}{_SPACE}:{_SPACE}{value}{_SPACE}"
    return rf"\{{{_SPACE}(?:{member}(?:,{_SPACE}{member})*+)?+\}}"


@cache
def calls_pattern() -> re.Pattern[str]:
    """A list of objects, or an object alone, with values as deep as the grammar of calls allows. Possessive: it takes linear
    time."""
    flat = rf"(?:{_SCALAR}|{_list_of(_SCALAR)}|{_object_of(_SCALAR)})"
    call = _object_of(flat)
    return re.compile(rf"(?P<list>{_list_of(call)})|(?P<call>{call})")


_TOOL = re.compile(r"""\{\s*+(?:"tool"|'tool'|tool\b)""")
_IN_LIST = re.compile(r"(?:\[|\}\s{0,64},)\s{0,64}\Z")
_LOOK_BACK = 132
_BETWEEN = re.compile(
    r"(?:[\s,;:*+•-]|`++(?:json\b)?+|</?tool_call>|\d{1,3}[.:)]"
    r"|\b(?:and|then|next|finally|first|second|third|step|call|action)\b(?:[ \t]\d{1,3}\b)?+)*+",
    re.IGNORECASE,
)
"""What may stand between the calls of a list: its marks and numbers, and fences, but no remark."""


def final_calls(text: str) -> str:
    """The last JSON list of calls in `text`, or the last calls one after another; `text` itself without any.

    If an object with a tool follows that is no JSON, or the list is cut off, `text` is returned, to be refused. Raises
    MalformedAction if the text says that the calls are not meant.

    **Example** `'First pay: {"tool":"pay"}\\nNo:\\n```json\\n[]\\n```'` is `"[]"`.
    """
    calls, start, end, is_beside = list[str](), 0, 0, False
    for found in calls_pattern().finditer(text):
        if found["list"] is not None:
            is_beside = (
                calls not in ([], [found["list"]]) and calls[0][0] == "[" and is_joined(text[end : found.start()])
            )
            calls, start = [found["list"]], found.start()
        elif not _TOOL.match(found["call"]):
            continue
        elif calls and calls[0][0] == "{" and _BETWEEN.fullmatch(text, end, found.start()):
            calls.append(found["call"])
        else:
            if _IN_LIST.search(text[max(0, found.start() - _LOOK_BACK) : found.start()]):
                return text
            calls, start, is_beside = [found["call"]], found.start(), False
        end = found.end()
    if not calls or _TOOL.search(text, end):
        return text
    check_is_meant(text[:start], text[end:])
    if is_beside:
        raise MalformedAction("two lists of calls, one after the other")
    return calls[0] if len(calls) == 1 else f"[{','.join(calls)}]"


def final_plan(text: str, step: re.Pattern[str], *, max_steps: int) -> str:
    """The last steps of `text`, each matching `step`, on lines without a remark between them; `text` itself without any.

    The steps of a line are all of it without Markdown, what follows its last colon, or its only text in backticks. If a line
    of steps and other words with a separator follows, it is returned, to be refused.

    **Example** for a shop: `"First pay? No.\\n1. **buy 2 pear**\\n2. pay\\nGood luck!"` is `"buy 2 pear\\npay"`.
    """
    steps, places, lines = list[str](), list[int](), text.splitlines()[-MAX_LINES:]
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if not line or line.isspace() or line.startswith("```"):
            continue
        if (found := _steps(line, step)) is not None:
            steps.append(found)
            places.append(number)
        elif steps:
            break
        elif _breaks_a_plan(line, step):
            return line
        if len(steps) > max_steps:
            break
    if not steps:
        return text
    head = "".join(_COLON.split(lines[places[-1]])[:-1])
    check_is_meant("\n".join((*lines[: places[-1]], f"{head}:" if head else "")), "\n".join(lines[places[0] + 1 :]))
    return "\n".join(reversed(steps))


def _steps(line: str, step: re.Pattern[str]) -> str | None:
    """The steps that a line consists of; None if it does not."""
    if len(line) > _MAX_STEP_LINE or not step.search(line.lower()):
        return None
    quoted = line.split("`")[1::2]
    parts = (unbulleted(line), _COLON.split(line)[-1], *(quoted if len(quoted) == 1 else ()))
    plain = (_REMARK.sub("", part.translate(_MARKUP)).strip().rstrip(".;") for part in parts)
    return next((part for part in plain if part and all(_are_steps(part, step))), None)


def _are_steps(text: str, step: re.Pattern[str]) -> Iterator[bool]:
    for part in text.split(STEP_SEPARATOR):
        yield step.fullmatch(" ".join(part.split()).lower()) is not None


def _breaks_a_plan(line: str, step: re.Pattern[str]) -> bool:
    """Whether some, but not all parts of a line between separators are steps."""
    return STEP_SEPARATOR in line and len(line) <= _MAX_STEP_LINE and any(_are_steps(line, step))
