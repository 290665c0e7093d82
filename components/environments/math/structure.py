"""Answers with several parts: tuples, intervals, sets and lists are compared part by part."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from components.environments.math.numbers import number

SameScalar = Callable[[str, str], bool]
"""(answer, expected) -> whether two parts that cannot be taken apart are equal."""
Kind = Literal["scalar", "bare", "set", "sequence", "union"]

MAX_PARTS = 32
MAX_DEPTH = 24
_OPENING, _CLOSING = "([{", ")]}"
_PLUS_MINUS = re.compile(r"\\pm(?![a-z])\s*")
_UNORDERED = {
    "set": ("set", "bare", "sequence", "scalar"),
    "bare": ("set", "bare", "sequence", "scalar"),
    "sequence": (),
    "union": ("union",),
    "scalar": ("set",),
}
"""Expected kind -> the kinds of answers that may be equal to it, comparing parts without order."""
_UNION = re.compile(r"(?<!\s)\s*\\cup(?![a-z])\s*")
_MEMBER = re.compile(r"\A[A-Za-z](?:_\{?\w\}?)?\s*\\in(?![a-z])\s*(?=\\?\{)")
"""`x \\in` before a set, which means the same as the set alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """An answer taken apart one level. `ends` are the brackets of a sequence: `()` is a tuple or an open interval."""

    kind: Kind
    parts: tuple[str, ...]
    ends: str = ""


def is_too_deep(text: str) -> bool:
    """Whether brackets are nested too deeply for an answer, or are unbalanced."""
    depth = 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        if not 0 <= depth <= MAX_DEPTH:
            return True
    return depth != 0


@lru_cache(maxsize=4096)
def take_apart(text: str) -> Structure:
    r"""The outermost structure of a plain answer.

    **Example** `(1, \frac{2}{3})` is the sequence `1`, `\frac{2}{3}` with ends `()`; `1 \pm x` is the bare list `1 + x`,
    `1 - x`; `1,234` is one number.
    """
    text = _MEMBER.sub("", text.strip())
    if number(text) is not None:
        return Structure(kind="scalar", parts=(text,))
    united = _split(text, _UNION)
    if len(united) > 1:
        return Structure(kind="union", parts=united)
    inner, ends = _unwrap(text)
    if inner is not None:
        parts = tuple(part for part in _split(inner, re.compile("[,;]")) if part)
        if ends == "{}":
            return Structure(kind="set", parts=parts)
        if len(parts) > 1 or ends == "[]":
            return Structure(kind="sequence", parts=parts, ends=ends)
    listed = _split(re.sub(r",?\s+(?:and|or)\s+", ",", text), re.compile("[,;]"))
    if len(listed) > 1:
        return Structure(kind="bare", parts=listed)
    if len(_PLUS_MINUS.findall(text)) == 1:
        plus, minus = (_PLUS_MINUS.sub(sign, text).removeprefix("+") for sign in "+-")
        return Structure(kind="bare", parts=(plus, minus))
    return Structure(kind="scalar", parts=(text,))


def same_structure(answer: Structure, expected: Structure, same: SameScalar) -> bool:
    """Whether two answers, at least one of them with several parts, are equal.

    Order and brackets matter for sequences, not for sets, unions and lists without brackets; how often a part is repeated, not
    between two sets or unions. A list without brackets may equal a set or a tuple; a set or a list in any brackets may equal a
    list without. No pair of parts is compared twice, which bounds
    the cost of nesting by the number of pairs of innermost parts.
    """
    if max(len(answer.parts), len(expected.parts)) > MAX_PARTS:
        return False

    @cache
    def same_part(one: str, other: str) -> bool:
        return same_answer(one, other, same)

    if expected.kind == "sequence" and answer.kind in ("sequence", "bare"):
        kept_ends = answer.ends == expected.ends or (answer.kind == "bare" and expected.ends == "()")
        return (
            kept_ends and len(answer.parts) == len(expected.parts) and all(map(same_part, answer.parts, expected.parts))
        )
    if answer.kind not in _UNORDERED[expected.kind] or (expected.kind == "set" and answer.ends == "()"):
        return False
    if (answer.kind, expected.kind) in (("set", "set"), ("union", "union")):
        return all(any(same_part(one, other) for other in expected.parts) for one in answer.parts) and all(
            any(same_part(one, other) for one in answer.parts) for other in expected.parts
        )
    return len(answer.parts) == len(expected.parts) and _can_be_paired(answer.parts, expected.parts, same_part)


def _can_be_paired(some: tuple[str, ...], others: tuple[str, ...], same: SameScalar) -> bool:
    """Whether each part has an equal one of its own; parts that are rounded or lack a unit may equal several."""
    holder = dict[int, int]()

    def finds_one(place: int, tried: set[int]) -> bool:
        for at, other in enumerate(others):
            if at not in tried and same(some[place], other):
                tried.add(at)
                if at not in holder or finds_one(holder[at], tried):
                    holder[at] = place
                    return True
        return False

    return all(finds_one(place, set()) for place in range(len(some)))


def same_answer(answer: str, expected: str, same: SameScalar) -> bool:
    """Whether two plain answers are equal; `same` compares parts that cannot be taken apart."""
    if answer == expected:
        return True
    one, other = take_apart(answer), take_apart(expected)
    if "scalar" in (one.kind, other.kind) and not {"set", "bare"} & {one.kind, other.kind}:
        return same(answer, expected)
    return same_structure(one, other, same)


def _unwrap(text: str) -> tuple[str | None, str]:
    r"""The inside of the pair of brackets around the whole `text`, and that pair; None without one."""
    opening = 2 if text.startswith("\\{") else 1
    closing = 2 if text.endswith("\\}") else 1
    if len(text) < opening + closing or text[opening - 1] not in _OPENING or text[-1] not in _CLOSING:
        return None, ""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0 and opening <= place < len(text) - 1:
            return None, ""
    return text[opening : len(text) - closing], text[opening - 1] + text[-1]


def _split(text: str, separator: re.Pattern[str]) -> tuple[str, ...]:
    """`text` split at the separators outside brackets."""
    parts, depth, start, place = list[str](), 0, 0, 0
    while place < len(text):
        found = separator.match(text, place) if depth == 0 else None
        if found:
            parts.append(text[start:place].strip())
            start = place = found.end()
            continue
        depth += (text[place] in _OPENING) - (text[place] in _CLOSING)
        place += 1
    return (*parts, text[start:].strip())
