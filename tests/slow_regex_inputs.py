"""Texts that make a careless parser slow: pumped from a regular expression, or from what answers are made of."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

ENDINGS = ("", "\x00", "}\n")
"""What follows a pumped part: a near-match fails at the end."""
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


def pump(pattern: re.Pattern[str], num_characters: int) -> Iterator[str]:
    """For each repetition in `pattern`, texts that lead to it and then hold its body over and over, and texts that lead to it
    over and over, in a few spellings."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    seen = set[tuple[str, str]]()
    for wide in range(2):
        for lead, body in _bodies(tree, wide, ""):
            if body and (lead, body) not in seen:
                seen.add((lead, body))
                for start, repeated in ((lead, body), ("", lead), ("", lead + body)):
                    middle = repeated * (num_characters // len(repeated)) if repeated else ""
                    for ending in ENDINGS if middle else ():
                        yield (start + middle)[: num_characters - len(ending)] + ending
    for lead in {_sample(tree, wide) for wide in range(2)}:
        if lead:
            for ending in ENDINGS:
                yield (lead * (1 + num_characters // len(lead)))[: num_characters - len(ending)] + ending


def patterns_of(package: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Every regular expression of text that a module, or one below a package, holds under a name, alone or in a tuple."""
    folder = Path(*package.split("."))
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]:
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        if "attacks" in path.parts:
            continue
        module = sys.modules.get(name) or import_module(name)
        for attribute, value in vars(module).items():
            for number, found in enumerate(_inside(value)):
                yield f"{name}.{attribute}[{number}]", found


def _inside(value: Any) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _inside(part)


def _bodies(tree: Any, wide: int, lead: str) -> Iterator[tuple[str, str]]:
    """What leads to each repetition of `tree`, and its body."""
    for code, argument in tree:
        for inner in _below(code, argument):
            if code in _REPEATS:
                yield lead, _sample(inner, wide)
            yield from _bodies(inner, wide, lead)
        lead += _one(code, argument, wide)


def _below(code: Any, argument: Any) -> list[Any]:
    if code in _REPEATS:
        return [argument[2]]
    if code is codes.SUBPATTERN:
        return [argument[3]]
    if code is codes.ATOMIC_GROUP:
        return [argument]
    if code is codes.BRANCH:
        return list(argument[1])
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [argument[1]]
    return []


def _sample(tree: Any, wide: int) -> str:
    return "".join(_one(code, argument, wide) for code, argument in tree)


def _one(code: Any, argument: Any, wide: int) -> str:
    """A text that one node of a parsed pattern matches, or nearly; `wide` chooses among several."""
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return "a" if argument != ord("a") else "b"
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        return _of_class(argument, wide)
    if code in _REPEATS:
        low, high, inner = argument
        return _sample(inner, wide) * max(low, min(wide, 2 if high > 2 else high))
    if code is codes.BRANCH:
        branches = argument[1]
        return _sample(branches[wide % len(branches)], wide)
    if code is codes.SUBPATTERN:
        return _sample(argument[3], wide)
    if code is codes.ATOMIC_GROUP:
        return _sample(argument, wide)
    if code is codes.ASSERT:
        return _sample(argument[1], wide) if argument[0] < 0 else ""
    return ""


def _of_class(members: list[tuple[Any, Any]], wide: int) -> str:
    if members[0][0] is codes.NEGATE:
        refused = {value for kind, value in members[1:] if kind is codes.LITERAL}
        return next(mark for mark in ("a ", " a", "x1")[wide % 3] if ord(mark) not in refused)
    kind, value = members[wide % len(members)]
    if kind is codes.LITERAL:
        return chr(value)
    if kind is codes.RANGE:
        return chr(value[0])
    return {codes.CATEGORY_SPACE: " ", codes.CATEGORY_DIGIT: "1", codes.CATEGORY_WORD: "a"}.get(value, "-")
