"""The grammars of both roles' answers, read line by line.

A line counts if it begins with one of its role's marks; other lines are thoughts and ignored. Text is matched and never
evaluated.
"""

import re
from dataclasses import dataclass

from components.environments.search.sizes import Sizes
from components.environments.shared.answer_extraction import (
    find_labelled,
    is_label,
    last_lines,
    last_meant,
    read_labelled_values,
    strip_bullet,
    strip_display,
)
from components.environments.shared.denials import check_is_meant, joint
from components.errors import MalformedAction

SEARCH = re.compile(r"(?:\?|\**+(?:search )?query:\**+)(?P<text>.*)", re.IGNORECASE)
NOTE = re.compile(r"#(?P<number>\d{1,4})\s*=(?P<text>.*)")
ASK = re.compile(r"(?:\?|###(?!#))(?P<text>.*)")
ANSWER = re.compile(r"(?:=|\**+answer:\**+)(?P<text>.*)", re.IGNORECASE)
LINES_ENDING = "the last marked lines, with at most blank lines between them."
"""How an answer that reasons first ends, for the instructions."""
_MAX_LABEL = 60
_REFERENCE = re.compile(r"#(\d{1,4})\b")


@dataclass(frozen=True, slots=True)
class Search:
    """A search for `text`."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """The searcher's answer to sub-question `number`, counted from 1."""

    number: int
    text: str


def parse_searcher(text: str, sizes: Sizes) -> tuple[Search | Note, ...]:
    """The searcher's lines in order: `? words` or `(Search) Query: words` searches, `#2 = words` answers sub-question 2.

    Raises MalformedAction if there is no such line, too many, or one that is empty or too long.

    **Example** `"#1 = Ann\\n?home of #1"` notes an answer and searches with it.
    """
    lines: list[Search | Note] = []
    for line in map(str.strip, text.splitlines()):
        if note := NOTE.fullmatch(line):
            lines.append(Note(int(note["number"]), _content(note, sizes)))
        elif search := SEARCH.fullmatch(line):
            lines.append(Search(_content(search, sizes)))
    if not lines:
        raise MalformedAction("no line begins with ? (a query) or #1 = (the answer of a sub-question)")
    _check_count(len(lines), sizes)
    return tuple(lines)


def parse_reasoner(text: str, sizes: Sizes) -> tuple[str, ...] | str:
    """The reasoner's sub-questions (`? words` or `### words`), or its final answer (`= words` or `Answer: words`) as one text.

    Raises MalformedAction if there is neither, both, a second answer in other words, too many sub-questions, or a line that
    is empty or too long.
    """
    asked: list[str] = []
    answers: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if ask := ASK.fullmatch(line):
            asked.append(_content(ask, sizes))
        elif answer := ANSWER.fullmatch(line):
            answers.append(_content(answer, sizes))
    if not asked and not answers:
        raise MalformedAction("no line begins with ? (a sub-question) or = (the final answer)")
    if asked and answers:
        raise MalformedAction("sub-questions and a final answer at once: either ask on or answer")
    if answers:
        if len(set(answers)) > 1:
            raise MalformedAction(f"{len(set(answers))} different final answers; give one")
        return answers[0]
    _check_count(len(asked), sizes)
    return tuple(asked)


def final_lines(text: str, *, answers: bool) -> str:
    r"""The last lines of `text` with marks, those of the reasoner if `answers`, else the searcher's; `text` itself without any.

    Markdown around a line is left out, and a line that begins "Final answer:" or alike is an answer. Headings (`### words`)
    are sub-questions only where no other line is marked. Without marked lines, what the last label or `\boxed{}` tells is the
    reasoner's answer. Raises MalformedAction if the text says that the lines are not meant.

    **Example** `"### Result\n= Rome\nNo, wait.\n**= Oslo**"` is `"= Oslo"`.
    """
    lines = last_lines(text, _reasoner_line if answers else _searcher_line)
    told = tuple(read_labelled_values(text)) if answers and lines is None else ()
    last = last_meant(text, told if lines is None else [lines], is_value=lines is None)
    if last is None:
        return text
    if lines is None:
        check_is_meant(text[: last.start] + last.content.strip().partition(" ")[0], "", is_value=True)
        return f"= {strip_display(last.content)}"
    if joint(text[: lines.start].rstrip("\n").rpartition("\n")[2]) == "choice":
        raise MalformedAction("marked lines that are alternatives to those before them")
    marked = lines.content.split("\n")
    return "\n".join([line for line in marked if not line.startswith("###")] or marked)


def _searcher_line(line: str) -> str | None:
    plain = strip_bullet(line)
    return plain if NOTE.fullmatch(plain) or SEARCH.fullmatch(plain) else None


def _reasoner_line(line: str) -> str | None:
    plain = strip_bullet(line)
    if is_label(plain):
        return None
    if (marked := ASK.fullmatch(plain) or ANSWER.fullmatch(plain)) and (words := marked["text"].strip()):
        return plain if strip_display(words) == words or plain[0] in "?#" else f"= {strip_display(words)}"
    if "\\boxed" in plain:
        return None
    told = next(find_labelled(plain), None)
    is_answer = told is not None and told.start <= _MAX_LABEL and {":", "："} & set(plain[: told.start])
    return f"= {plain[told.start :]}" if told and is_answer else None


def resolve_references(text: str, answers: tuple[str | None, ...]) -> str:
    """`text` with each reference to a sub-question replaced by its answer; a number that names none stays.

    `answers[i]` belongs to sub-question i + 1. Raises MalformedAction for a sub-question without an answer.

    **Example** `resolve_references("home of #1", ("Ann", None))` is `"home of Ann"`.
    """

    def answer_of(match: re.Match[str]) -> str:
        number = int(match[1])
        if not 1 <= number <= len(answers):
            return match[0]
        answer = answers[number - 1]
        if answer is None:
            raise MalformedAction(f"#{number} has no answer yet")
        return answer

    return _REFERENCE.sub(answer_of, text)


def single_line(text: str) -> str:
    """`text` with every run of white space as one space."""
    return " ".join(text.split())


def _content(match: re.Match[str], sizes: Sizes) -> str:
    content = single_line(match["text"])
    if not content:
        raise MalformedAction("a mark without words behind it")
    if len(content) > sizes.line_characters:
        raise MalformedAction(f"a line of {len(content)} characters; at most {sizes.line_characters} are allowed")
    return content


def _check_count(count: int, sizes: Sizes) -> None:
    if count > sizes.num_lines:
        raise MalformedAction(f"{count} marked lines; at most {sizes.num_lines} are allowed")
