"""One rule to read an answer in a text that reasons first: of its blocks, boxes, labelled lines and lines the last one counts.

An environment chooses its candidates with the grammar of its answers; this module finds them, and says which one is meant.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from components.environments.shared.denials import check_is_meant, check_is_whole, joint
from components.errors import MalformedAction

REASON_FIRST = "You may reason first, at any length; a correction counts, because only the end of your answer is read:"
PROGRAM_ENDING = "the last ```python block, with the whole program."
"""How answers with a program end, for the instructions."""
_ALONE = (" and nothing else", ", or with nothing but the program")
"""What the instructions for compact answers ask for."""
MAX_CANDIDATES = 64
"""Candidates of a kind that are looked at, the last of a text."""
_MAX_LINES = 4096
_MARKUP = "*_`~"
_FENCE = r"^[ \t]*+(?:`{3,}+|~{3,}+)"
_BLOCK = re.compile(
    rf"(?P<indent>{_FENCE})(?P<language>[^`~\n]*)\n(?P<body>.*?)(?:{_FENCE}[ \t]*$|(?={_FENCE}[^`~\n]*$)|\Z)",
    re.MULTILINE | re.DOTALL,
)
_PYTHON = ("python", "py", "python3")
_CODE = (
    r"(?:[ \t]+\S|(?:import|from \S+ import|def|class|return|assert|async|raise|del|global) |(?:if|for|while|with|match) "
    r"[^:\n]{0,120}+:|(?:try|else):|[@#)\]}]|[\"']|pass\b|[A-Za-z_][\w.]{0,60}+\("
    r"|[A-Za-z_][\w, .\[\]]{0,60}? ?[-+*/|&^%]?=[^=])"
)
_PROGRAM = re.compile(rf"^{_CODE}(?:.*\n{_CODE})?[^\n]*", re.MULTILINE | re.DOTALL)
_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|(?<!\\)(?P<slashes>\\*+)[{}]")
"""An odd number of backslashes before a brace makes it one of the text."""
_BOX = re.compile(r"\\(?:boxed|fbox)\b")
_UP_TO = r"[^\n:：=.,;!?()\[\]{}]{0,40}?(?:\([^()\n]{0,40}\)[ \t*_`~]{0,4})?"
_SAYS = re.compile(rf"{_UP_TO}[:：=][\s*_`~:：=]*+")
_IS = re.compile(rf"(?:>|{_UP_TO}(?:[:：=]|\b(?:is|are|ist|lautet|est|es)\b|是))[\s*_`~:：=]*+", re.IGNORECASE)
_DISPLAY = re.compile(r"(?:\\{1,2}\[|\$\$|\\begin\{(?:equation|align|gather|displaymath)\*?\})\s*+")
_DISPLAY_END = re.compile(r"\\{1,2}\]|\$\$|\\end\{")
_HEADING = re.compile(
    r"^[ \t]*+(?:####(?!#)[ \t]*+(?=[-+−]?[ ]?[$€£]?\d[\d,./]*+%?(?:[ ][^\W\d]++){0,2}[. \t]*+$|[$\\][^\n]*+$)"
    r"|[#>*_`~ \t]*+(?:(?:the|my|final)[ ]){0,2}answer[*_`~ \t]*+\n\s*+)",
    re.MULTILINE | re.IGNORECASE,
)
"""A line that is nothing but a label, and `####` before the number that ends an answer."""
_FORMULA = r"(?:(?!\\[()\[\]]).)*"
_WRAPPED = re.compile(
    rf"(?:\\{{1,2}}\[({_FORMULA})\\{{1,2}}\]|\\{{1,2}}\(({_FORMULA})\\{{1,2}}\)|\$\$([^$]+)\$\$|\$([^$]+)\$|\\(?:text(?:normal|bf|it|rm|sf|tt)?"
    r"|math(?:rm|bf|it|sf)|mbox|boxed|fbox)\s*\{([^{}]*)\})(?:[.;]\s.*)?\.?",
    re.DOTALL,
)
_MAX_LAYERS = 4
_LINE_END = re.compile(r"\n|</")
_REMARK = re.compile(r"\n|</|[.;]\s|。|,?\s(?:because|since|as|which|(?:and |but )?not|where)\b|,?\s\(")
_BULLET = re.compile(r"\A(?:[-*+•>]|\d{1,3}[.)])\s+")
_NO_REMARKS = ("```", "~~~", " ", "\t", "(")


class Candidate(NamedTuple):
    """A part of a text that may be the answer, at `start` to `end`."""

    content: str
    start: int
    end: int
    is_answer: bool = False
    """A label calls it the answer."""
    is_loose: bool = False
    """Nothing but its place marks it as the answer."""


def blocks(text: str) -> Iterator[tuple[str, Candidate]]:
    """The language and place of each fenced block. One that is left open goes to the next fence, or to the end."""
    for block in _BLOCK.finditer(text):
        margin = block["indent"].rstrip("`~")
        body = re.sub(rf"^{margin}", "", block["body"], flags=re.MULTILINE) if margin else block["body"]
        yield block["language"].strip().lower(), Candidate(body.removesuffix("\n"), *block.span())


def boxes(text: str) -> Iterator[Candidate]:
    r"""The last closed `\boxed{...}` that hold no other one; `\{` and `\}` are text.

    **Example** `r"\boxed{\frac{1}{2}}"` gives `r"\frac{1}{2}"`.
    """
    opened, newest, first = list[re.Match[str]](), None, _BOX.search(text)
    found = deque[tuple[re.Match[str], int]](maxlen=MAX_CANDIDATES)
    for mark in _BRACES.finditer(text, first.start()) if first else ():
        if mark["slashes"] is not None and len(mark["slashes"]) % 2:
            continue
        if mark[0][-1] != "}":
            opened.append(mark)
            newest = mark if mark["slashes"] is None else newest
        elif opened and (box := opened.pop()) is newest:
            found.append((box, mark.end() - 1))
    for box, end in found:
        yield Candidate(text[box.end() : end], box.start(), end + 1)


@cache
def _words(words: str) -> re.Pattern[str]:
    answer = r"(?P<answer>(?<!/)\b(?:answers?|antwort|réponse|respuesta|ответ)\b|答案)"
    return re.compile(rf"{answer}|\b(?:{words})\b", re.IGNORECASE)


def find_labelled(
    text: str, *, words: str = "solution|result|output|value|final", with_remark: bool = True
) -> Iterator[Candidate]:
    """What follows each label, such as "Final answer:" and `<answer>`, on its line or the next one, up to another label.

    `words` are other names of an answer, which need a colon. A remark behind it is left out unless `with_remark`.

    **Example** `"The answer is 4, because 2 + 2 is 4."` is `"4"` without its remark.
    """
    headings = deque(_HEADING.finditer(text), maxlen=MAX_CANDIDATES)
    labels, before = {found.end(): True for found in headings}, {found.end(): found.start() for found in headings}
    for word in deque(_words(words).finditer(text), maxlen=MAX_CANDIDATES):
        said = (_SAYS if word["answer"] is None else _IS).match(text, word.end())
        if said is not None and (said.end() not in labels or word["answer"] is not None):
            labels[said.end()], before[said.end()] = word["answer"] is not None, word.start()
    starts = sorted(labels)
    for start, following in zip_longest(starts, starts[1:]):
        is_answer = labels[start]
        display = _DISPLAY.match(text, start)
        start = display.end() if display else start
        told = text[start : before[following] if following else len(text)]
        told = _DISPLAY_END.split(told, maxsplit=1)[0] if display else told
        told = (_LINE_END if with_remark else _REMARK).split(told, maxsplit=1)[0]
        if content := bare(told):
            yield Candidate(content, start, start + len(told), is_answer=is_answer, is_loose=not is_answer)


def read_labelled_values(text: str) -> Iterator[Candidate]:
    """What boxes and labels tell; of a label before a box only the box."""
    boxed = tuple(boxes(text))
    yield from boxed
    yield from (each for each in find_labelled(text) if not any(each.start <= box.start < each.end for box in boxed))


def is_label(line: str) -> bool:
    """Whether a line is nothing but a label, such as `### Final answer`."""
    return _HEADING.fullmatch(f"{line.strip()}\n") is not None


def last_lines(text: str, read: Callable[[str], str | None]) -> Candidate | None:
    """The last lines of `text` of which `read` gives the contents, without a remark between them: a line that is neither empty
    nor a fence, nor indented or in brackets. None without such a line."""
    contents, start, end, place = list[str](), 0, 0, len(text)
    for line in reversed(text.splitlines(keepends=True)[-_MAX_LINES:]):
        place -= len(line)
        if line.isspace():
            continue
        content = read(line.rstrip())
        if content is not None:
            end = end if contents else place + len(line.rstrip())
            start = place + max(line.rfind(content), 0)
            contents.append(content)
        elif contents and not line.startswith(_NO_REMARKS):
            break
    return Candidate("\n".join(reversed(contents)), start, end, is_loose=True) if contents else None


def last_meant(text: str, candidates: Iterable[Candidate], *, is_value: bool = False) -> Candidate | None:
    """The candidate that ends last, a value or a list of moves or calls; None without any.

    Raises MalformedAction if the text around it says that it is not meant, if nothing but words such as "or" and "then" stand
    between it and another one, or if it is loose and another one was called the answer.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.end)
    if not ordered:
        return None
    last = ordered[-1]
    check_is_meant(text[: last.start], text[last.end :], is_value=is_value)
    if is_value:
        check_is_whole(text[: last.start], last.content, text[last.end :])
    others = [each for each in ordered if each.end <= last.start and each.content != last.content]
    names_itself = last.is_answer and others and others[-1].is_loose
    if others and not names_itself and joint(text[others[-1].end : last.start]) in ("marks", "choice"):
        raise MalformedAction("two answers, one after the other")
    if last.is_loose and any(each.is_answer for each in others):
        raise MalformedAction("something else follows the answer")
    return last


def final_program(text: str, entry: str = "") -> str:
    """The program in `text`: of the fenced blocks the last one that defines the function `entry`, else the last one in Python,
    else the last one. Without a block, the lines from the first that looks like a statement to the last, if remarks stand
    before it; else the whole text."""
    fenced = list(blocks(text))
    if not fenced:
        found = _PROGRAM.search(text.strip("\n"))
        return found[0] if found and found.start() > 0 else text
    named = [block for language, block in fenced if language.partition(" ")[0] in _PYTHON]
    defining = [block for block in named if entry and re.search(rf"\bdef {re.escape(entry)}\b", block.content)]
    last = (defining or named or [block for _, block in fenced])[-1]
    check_is_meant(text[: last.start], "")
    return last.content


def final_text(text: str) -> str:
    r"""The answer in `text` if nothing is known of its grammar: what stands in the last fenced block, `\boxed{}` or labelled
    line, else the last line that is not empty. Markdown marks or LaTeX's marks of a formula or words around it are left out.

    **Example** `"6 * 7 is 42.\\n**Answer:** 42\\n\\nI hope this helps."` is `"42"`.
    """
    fenced = (block for _, block in blocks(text))
    last = last_meant(text, (*fenced, *read_labelled_values(text)), is_value=True)
    return bare(text.strip().rpartition("\n")[2]) if last is None else strip_display(last.content)


def bare(line: str) -> str:
    """`line` without Markdown marks around it, or a full stop behind it. **Example** `"**42**."` is `"42"`."""
    text = line.strip().strip(_MARKUP).strip()
    return text.removesuffix(".").removesuffix("。").rstrip(_MARKUP) or text


def strip_display(content: str) -> str:
    r"""`content` without a box, the marks of a formula, and the font commands, around all of it.

    **Example** `r"\(\text{B}\)."` is `"B"`.
    """
    content = content.strip()
    whole = next((box for box in boxes(content) if (box.start, box.end) == (0, len(content))), None)
    content = content if whole is None else whole.content.strip()
    for _ in range(_MAX_LAYERS):
        found = _WRAPPED.fullmatch(content)
        if found is None:
            break
        content = next(part for part in found.groups() if part is not None).strip()
    return content


def strip_bullet(line: str) -> str:
    """`line` without the mark of a list item, and without Markdown marks around it."""
    line = line.strip()
    return _BULLET.sub("", line, count=1).strip().strip(_MARKUP).strip()


def reasoning_instructions(instructions: str, ending: str) -> str:
    """`instructions` for answers that may reason first and whose end is `ending`."""
    for compact in _ALONE:
        instructions = instructions.replace(compact, "")
    return f"{instructions}\n{REASON_FIRST} {ending}".lstrip("\n")
