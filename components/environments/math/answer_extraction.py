"""The final value in an answer that reasons first, as a reader sees it."""

import re

from components.environments.math.normalization import around_box, boxed, plain
from components.environments.math.numbers import number
from components.environments.shared.answer_extraction import bare, check_is_meant, labelled, last_match

PROGRAM_ENDING = "the last ```python block, with the whole program."
VALUE_ENDING = "the last \\boxed{} with the final answer."
"""How answers that reason first end, for the instructions."""
_MARKED = re.compile(r"^[ \t]*####(?!#)[ \t]*(?P<told>\S.*)$", re.MULTILINE)
_VALUE = r"[-+−]?[ ]?[$€£]?\d[\d,]*+(?:\.\d++)?(?:[ ]?/[ ]?\d++)?%?"
_COUNTED = re.compile(rf"[ \t]*+(?P<value>{_VALUE})(?:[ \t]++[^\W\d]++){{1,4}}[.!。]*+\Z")
_BEFORE = r"=|≈|\b(?:so|thus|hence|therefore|equals|gives|is|get|have)\b[\s:,]"
_VALUE_LINE = re.compile(
    rf"^(?:.*(?:{_BEFORE}))?[ \t*_`~$]*+(?P<value>{_VALUE})[ \t]*+[*_`~$.!。]*+[ \t]*+$", re.MULTILINE
)
_REMARK = re.compile(r"[.;]\s|,?\s(?:because|since|as|which|(?:and |but )?not|where)\b|,?\s\(")
_ALONE = re.compile(rf"(?<![\w^{{(\\.,+*/=-]){_VALUE}(?![\w^}})(+*/=-]|[.,]\d)")
_MAX_WORDS = 4
_MAX_LINE = 1000


def final_value(text: str) -> str:
    r"""The last final answer of `text`; `text` itself without one, or if it is in a box.

    That is the last `\boxed{}`, unless a label such as "Answer:" with a number follows it; else what the last label or `####`
    tells, of an equation its right side; else the last number that is a line or ends an equation or a conclusion; else the only
    number of a sentence in the last line, what an equation in it comes to, or a last line of a few words.

    Raises MalformedAction if the text says that it is not meant.

    **Example** `"\boxed{5}. Wait, 2 + 2 is 4, so the answer is 4."` is `"4"`.
    """
    content = boxed(text)
    if content is not None:
        told = _told(around_box(text, content)[1])
        return told if told is not None and number(plain(told)) is not None else text
    told = _told(text) or _last(_MARKED, text, "told") or _last(_VALUE_LINE, text, "value")
    if told is not None:
        return told
    line = bare(text.strip().rpartition("\n")[2])
    if (only := _only_number(line)) is not None:
        return only
    left, _, right = line.rpartition("=")
    if left and len(line) <= _MAX_LINE and (counted := _COUNTED.match(right)):
        return bare(right) if number(plain(right)) is None else counted["value"].strip()
    return line if "\n" in text.strip() and len(line.split()) <= _MAX_WORDS else text


def _only_number(line: str) -> str | None:
    """The number in a sentence, if it has a single one, with a unit or nothing behind it."""
    if len(line) > _MAX_LINE or sum(word.strip(",;:").isalpha() for word in line.split()) < 2:
        return None
    found = list(_ALONE.finditer(line))
    if len(found) != 1:
        return None
    check_is_meant(line[: found[0].start()], line[found[0].end() :])
    behind = _REMARK.split(line[found[0].end() :], maxsplit=1)[0]
    return found[0][0].strip() if number(plain(found[0][0] + behind)) is not None else None


def _told(text: str) -> str | None:
    """What the last label in `text` announces, without a remark behind it."""
    told = labelled(text)
    if told is None:
        return None
    told, *remark = re.split(f"({_REMARK.pattern})", told, maxsplit=1)
    check_is_meant("", "".join(remark))
    return bare(_right_side(told))


def _right_side(told: str) -> str:
    """What an equation comes to. **Example** `"6 * 7 = 42"` is `"42"`; `"x = 3, y = 4"` stays."""
    left, _, right = told.rpartition("=")
    is_equation = left.rstrip()[-1:] in tuple("0123456789)}%") and right.strip()
    return right.strip() if is_equation else told


def _last(pattern: re.Pattern[str], text: str, group: str) -> str | None:
    last = last_match(pattern, text)
    if last is None:
        return None
    check_is_meant(text[: last.start(group)], text[last.end(group) :])
    return bare(last[group])
