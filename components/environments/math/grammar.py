"""The grammar of programs and answers. Text is extracted and never evaluated."""

import re
from collections import deque

from components.environments.math.normalization import MAX_FINAL_CHARACTERS, plain
from components.environments.math.numbers import NO_FIRST_UNITS, NO_UNITS, number
from components.environments.math.units import SHORT_WORDS, is_unit
from components.environments.shared.answer_extraction import MAX_CANDIDATES, boxes, find_labelled, last_meant
from components.environments.shared.denials import check_is_meant
from components.environments.shared.printed import print_latex
from components.environments.shared.text import is_text
from components.errors import MalformedAction
from components.schema import Execution, ExecutionResult

_FENCE = re.compile(r"```[ \t]*(?:(?:python3?|py)[ \t]*)?\n(.*?)(?:```|\Z)", re.DOTALL)
_WORD = re.compile(r"[ \t$]*+([^\W\d_]+)(?![\w(])")
_VARIABLE = re.compile(r"(?<![A-Za-z\\])(?!a\s+[A-Za-z]{2}|I\b)[A-Za-z](?![A-Za-z(])")
_CALL = re.compile(r"\b[A-Za-z]\([^()]{0,40}\)")
_FLOWS_ON = frozenset(
    {"or", "and", "not", "plus", "minus", "times", "multiplied", "divided", "over", "point", "mod", "modulo", "more", "less",
     "fewer", "to", "through", "until", "if", "unless"}
)  # fmt: skip
"""Words that make another number of the one before them only with what follows them."""
_CHANGES = (NO_UNITS | NO_FIRST_UNITS) - _FLOWS_ON
_MAX_ERROR_CHARACTERS = 160
VALUE_ENDING = "the last \\boxed{} with the final answer."
"""How answers that reason first end, for the instructions."""
_VALUE_LINE = re.compile(
    r"^(?:.*(?:[:：=≈]|####|\b(?:so|thus|hence|therefore|equals|gives|is|are|get|have)\b[\s:,]))?[ \t*_`~$]*+"
    r"(?P<value>[-+−]?[ ]?[$€£]?\d[\d,]*+(?:\.\d++)?(?:[ ]?/[ ]?\d++)?%?)"
    r"(?P<unit>(?:[ ][^\W\d]++){0,4})[ \t]*+(?:[*_`~$.!。]|\\[\])])*+[ \t]*+$",
    re.MULTILINE,
)


def parse_program(text: str, *, max_characters: int) -> Execution:
    """The program of an answer: the last fenced block, or the whole answer without one. Equal programs give equal executions.

    Raises MalformedAction if it is missing, too long or not text.

    **Example** "Let me see.\\n```python\\nprint(2)\\n```" runs `print(2)`.
    """
    blocks = _FENCE.findall(text)
    program = "\n".join(line.rstrip() for line in (blocks[-1] if blocks else text).strip("\n").splitlines()).rstrip()
    if not program.strip():
        raise MalformedAction("no program")
    if len(program) > max_characters:
        raise MalformedAction(f"a program of {len(program)} characters; at most {max_characters} are allowed")
    if "\0" in program or not is_text(program):
        raise MalformedAction("a program with characters that are no text")
    return Execution(program=program + "\n")


def parse_answer(text: str, *, max_characters: int, numbers_only: bool) -> str:
    r"""The final answer: the content of the last `\boxed{}`, or the whole text if it is one short line.

    Raises MalformedAction if there is none, if the text around the box says that it is not meant, or, with `numbers_only`, if
    it is not a number.

    **Example** `So it is \boxed{3/4}.` is `3/4`, and so is `3/4`; a page of text without a box is malformed.
    """
    box = last_meant(text, boxes(text), is_value=True)
    answer = text.strip() if box is None else box.content.strip()
    if box is not None and "\\boxed" not in text[box.end :]:  # behind it a box may have been left open
        _check_unit(answer, text[box.end :])
    if not answer or (box is None and "\n" in answer):
        raise MalformedAction("no final answer: put it into \\boxed{}, or write it alone on one line")
    if len(answer) > max_characters:
        raise MalformedAction(f"an answer of {len(answer)} characters; at most {max_characters} are allowed")
    if not is_text(answer):
        raise MalformedAction("an answer with characters that are no text")
    if numbers_only and ((written := number(plain(answer))) is None or written.is_percent):
        raise MalformedAction(f"{answer!r} is no number")
    return answer


def _check_unit(content: str, after: str) -> None:
    r"""Raise MalformedAction if a word behind a box makes another number of it: `\boxed{5} million`, `\boxed{5} x`."""
    found = _WORD.match(print_latex(after))
    if found is None:
        return
    word = found[1].casefold()
    is_product = (
        len(word) <= 2 and word not in SHORT_WORDS and not is_unit(found[1]) and number(plain(content)) is not None
    )
    if is_product or (word in _CHANGES and found[1] != "I"):
        raise MalformedAction(f"{found[0].strip()!r} follows the box")


def final_value(text: str) -> str:
    r"""The last final answer of `text`; `text` itself without one, or if it is in a box.

    That is the last `\boxed{}`, unless a label such as "Answer:" with a number follows it; else what the last label or `####`
    tells, of a calculation its right side; else the last number that is a line or ends an equation or a conclusion, without
    its unit.

    Raises MalformedAction if the text says that it is not meant.

    **Example** `"\boxed{5}. Wait, 2 + 2 is 4, so the answer is 4."` is `"4"`.
    """
    box = max(boxes(text), key=lambda each: each.start, default=None)
    labels = deque(find_labelled(text, with_remark=False), maxlen=MAX_CANDIDATES)
    last = next((each for each in reversed(labels) if each.is_answer or _is_number(each.content)), None)
    last = last or (labels[-1] if labels else None)
    if last is not None and (box is None or last.start >= box.end):
        check_is_meant(text[: last.start], text[last.end :], is_value=True)
        told = _read_conclusion(last.content)
        if box is None or number(plain(told)) is not None:
            return told
    for line in reversed(deque(_VALUE_LINE.finditer(text) if box is None else (), maxlen=MAX_CANDIDATES)):
        if number(plain(line["value"] + line["unit"])) is not None:
            check_is_meant(text[: line.start("value")], text[line.end() :], is_value=True)
            return line["value"].strip()
    return text


def _is_number(content: str) -> bool:
    return len(content) <= MAX_FINAL_CHARACTERS and number(plain(content)) is not None


def _read_conclusion(told: str) -> str:
    """What a labelled line tells: of a calculation its right side, of a sentence the number that ends it; else all of it."""
    left, _, right = told.rpartition("=")
    if (
        left.rstrip()[-1:] in tuple("0123456789)}%")
        and right.strip()
        and not _VARIABLE.search(_CALL.sub("", left.rpartition("=")[2]))
    ):
        return right.strip()
    ended = _VALUE_LINE.fullmatch(told) if "=" not in told else None
    if (
        ended is not None
        and any(map(str.isalpha, told[: ended.start("value")]))
        and number(plain(ended["value"] + ended["unit"])) is not None
    ):
        check_is_meant(told[: ended.start("value")], "", is_value=True)
        return ended["value"].strip()
    return told


def read_printed_answer(result: ExecutionResult) -> str | None:
    """A program's answer: the last line of its output; None if it failed or printed none. Standard error is ignored."""
    if result.status != "ok":
        return None
    last_line = result.stdout.rstrip().rpartition("\n")[2].strip()
    return last_line if 0 < len(last_line) <= MAX_FINAL_CHARACTERS else None


def failure(result: ExecutionResult) -> str:
    """Why a program gave no answer, such as `nonzero_exit: ZeroDivisionError: division by zero`."""
    if result.status == "ok":
        return "it printed no answer" if not result.stdout.strip() else "the last line that it printed is too long"
    said = result.stderr.strip().rpartition("\n")[2][-_MAX_ERROR_CHARACTERS:] or result.detail
    return f"{result.status}: {said}" if said else result.status
