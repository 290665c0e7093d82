"""The final value in an answer that reasons first, as a reader sees it."""

import re

from components.environments.math.numbers import number
from components.environments.math.spelling import boxed, plain
from components.environments.shared.reading import bare, labelled, last_match

PROGRAM_ENDING = "the last ```python block, with the whole program."
VALUE_ENDING = "the last \\boxed{} with the final answer."
"""How answers that reason first end, for the instructions."""
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_MARKED = re.compile(r"^[ \t]*####(?!#)[ \t]*(?P<told>\S.*)$", re.MULTILINE)
_VALUE = r"[-+−]?[ ]?[$€£]?\d[\d,]*+(?:\.\d++)?(?:[ ]?/[ ]?\d++)?%?"
_LEADING = re.compile(rf"[$*_`(]*+(?P<value>{_VALUE})(?![.,]?\d)(?!\s*(?:[-+−*/×÷·^=,]|x\b|and\b|or\b)\s*[$(]*\d)")
_COUNTED = re.compile(rf"[ \t]*+(?P<value>{_VALUE})(?:[ \t]++[^\W\d]++){{1,4}}[.!。]*+\Z")
_BEFORE = r"=|≈|\b(?:so|thus|hence|therefore|equals|gives|is|get|have)\b[\s:,]"
_VALUE_LINE = re.compile(
    rf"^(?:.*(?:{_BEFORE}))?[ \t*_`~$]*+(?P<value>{_VALUE})[ \t]*+[*_`~$.!。]*+[ \t]*+$", re.MULTILINE
)
_REMARK = re.compile(r"[.;]\s|,?\s(?:because|since|as|which|(?:and |but )?not|where)\b|,?\s\(")
_ALONE = re.compile(rf"(?<![\w^{{(\\.,+*/=-]){_VALUE}(?![\w^}})(+*/=-]|[.,]\d)")
_MAX_WORDS = 4
_MAX_LINE = 1000


def final_value(text: str, *, numbers_only: bool) -> str:
    r"""The last final answer of `text`; `text` itself without one.

    That is the last `\boxed{}`, unless a label such as "Answer:" with a number follows it; else what the last label or `####`
    tells, of an equation its right side; else the last number that is a line or ends an equation or a conclusion; else the only
    number of a sentence in the last line, what an equation in it comes to, or a last line of a few words. With `numbers_only`
    words behind a number are left out.

    **Example** `"\boxed{5}. Wait, 2 + 2 is 4, so the answer is 4 of them."` is `"4"` with `numbers_only`.
    """
    content = boxed(text)
    if content is not None:
        box = [opened.start() for opened in _BOX.finditer(text)][-1]
        told = _told(text[text.find("}", box + len(content)) + 1 :], numbers_only)
        is_later = told is not None and number(plain(told)) is not None
        return str(told) if is_later else f"\\boxed{{{content}}}"
    told = _told(text, numbers_only) or _last(_MARKED, text, "told") or _last(_VALUE_LINE, text, "value")
    if told is not None:
        return told
    line = bare(text.strip().rpartition("\n")[2])
    if (only := _only_number(line)) is not None:
        return only
    left, _, right = line.rpartition("=")
    if left and len(line) <= _MAX_LINE and (counted := _COUNTED.match(right)):
        return counted["value"].strip()
    return line if "\n" in text.strip() and len(line.split()) <= _MAX_WORDS else text


def _only_number(line: str) -> str | None:
    """The number in a sentence, if it has a single one."""
    if len(line) > _MAX_LINE or sum(word.strip(",;:").isalpha() for word in line.split()) < 2:
        return None
    found = [each[0] for each in _ALONE.finditer(line)]
    return found[0].strip() if len(found) == 1 else None


def _told(text: str, numbers_only: bool) -> str | None:
    """What the last label in `text` announces, without a remark behind it."""
    told = labelled(text)
    if told is None:
        return None
    told = _right_side(_REMARK.split(told, maxsplit=1)[0])
    if numbers_only and (leading := _LEADING.match(told)):
        return leading["value"]
    return bare(told)


def _right_side(told: str) -> str:
    """What an equation comes to. **Example** `"6 * 7 = 42"` is `"42"`; `"x = 3, y = 4"` stays."""
    left, _, right = told.rpartition("=")
    is_equation = left.rstrip()[-1:] in tuple("0123456789)}%") and right.strip()
    return right.strip() if is_equation else told


def _last(pattern: re.Pattern[str], text: str, group: str) -> str | None:
    last = last_match(pattern, text)
    return None if last is None else bare(last[group])
