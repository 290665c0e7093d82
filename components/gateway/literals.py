"""Values as models write them in calls that are no JSON: JSON's and Python's words, and strings between quotes of any kind."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
_KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|" + "|".join(_WORDS))
_QUOTED = re.compile(r"'[^'\\\n\r]*+(?:\\.[^'\\\n\r]*+)*+'|\"[^\"\\\n\r]*+(?:\\.[^\"\\\n\r]*+)*+\"", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "\n": "", **{each: each for each in "\\'\""}}
_REFUSED_ESCAPES = set("01234567uUxN")
_BARE_KEY = re.compile(r"[^\s:,\[\]{}]+")
_SPACE = re.compile(r"\s*")
_MOST_REFERENCES = 20


def read_literal(text: str, at: int, quote: str) -> tuple[Any, int]:
    """The value at a place and where it ends: a list, an object, a number, a word, or a string between two of `quote`, in which
    nothing is escaped, or between any of Python's quotes if `quote` is one. Raises ValueError.

    **Example** "[1, 'x', True]": the list, for the quote "'".
    """
    opening = text[at : at + 1]
    if opening == "[":
        return _read_members(text, at, "]", lambda place: read_literal(text, place, quote))
    if opening == "{":
        members, end = _read_members(text, at, "}", lambda place: _read_pair(text, place, quote))
        return dict(members), end
    if (string := _read_string(text, at, quote)) is not None:
        return string
    word = require_match(_PLAIN.match(text, at))
    return _WORDS[word[0]] if word[0] in _WORDS else json.loads(word[0]), word.end()


def read_typed(text: str, kinds: set[str]) -> Any:
    """The value of a text without quotes, by what the schema says that it may be. Raises ValueError.

    **Example** "12" is a string for {"string"}, else a number; "ab" is none of {"integer"}.
    """
    if kinds == {"string"}:
        return text
    try:
        value, end = read_literal(text, _skip_space(text, 0), '"')
        is_read = _skip_space(text, end) == len(text)
    except ValueError:
        value, is_read = None, False
    if "string" in kinds:
        kind = _KINDS[type(value)]
        return value if is_read and kind != "string" and kinds & {kind, kind.replace("integer", "number")} else text
    if not is_read:
        raise ValueError(f"{text[:40]!r} is no {' or '.join(sorted(kinds))}")
    return value


def list_kinds(schema: Any, root: Mapping[str, Any], most: int = _MOST_REFERENCES) -> set[str]:
    """What a JSON schema says that a value may be; a string where it says nothing. `root` holds what it refers to."""
    if not isinstance(schema, Mapping) or most == 0:
        return {"string"}
    said = schema.get("type")
    kinds = {each for each in (said if isinstance(said, list) else [said]) if isinstance(each, str)}
    if not kinds:
        shown = [*_list(schema, "enum"), *([schema["const"]] if "const" in schema else ())]
        kinds = {_KINDS[type(each)] for each in shown}
    for part in [each for word in ("anyOf", "oneOf", "allOf") for each in _list(schema, word)]:
        kinds |= list_kinds(part, root, most - 1)
    if isinstance(reference := schema.get("$ref"), str):
        place: Any = root
        for step in reference.removeprefix("#/").split("/"):
            place = place.get(step) if isinstance(place, Mapping) else None
        kinds |= list_kinds(place, root, most - 1)
    return kinds & set(_KINDS.values()) or {"string"}


def _list(schema: Mapping[str, Any], word: str) -> list[Any]:
    return said if isinstance(said := schema.get(word), list) else []


def _read_members(text: str, at: int, closes: str, read: Callable[[int], tuple[T, int]]) -> tuple[list[T], int]:
    members: list[T] = []
    at = _skip_space(text, at + 1)
    if text.startswith(closes, at):
        return members, at + 1
    while True:
        member, at = read(at)
        members.append(member)
        at = _skip_space(text, at)
        if text.startswith(closes, at):
            return members, at + 1
        at = _skip_space(text, _skip(text, at, ","))


def _read_pair(text: str, at: int, quote: str) -> tuple[tuple[str, Any], int]:
    found = _read_string(text, at, quote)
    if found is None:  # keys stand bare where strings have marks of their own
        bare = require_match(_BARE_KEY.match(text, at) if quote not in "'\"" else None)
        found = bare[0], bare.end()
    value, end = read_literal(text, _skip_space(text, _skip(text, _skip_space(text, found[1]), ":")), quote)
    return (found[0], value), end


def _read_string(text: str, at: int, quote: str) -> tuple[str, int] | None:
    if quote in "'\"":
        found = _QUOTED.match(text, at)
        return None if found is None else (_unescape(found[0][1:-1]), found.end())
    if not text.startswith(quote, at):
        return None
    at += len(quote)
    end = text.index(quote, at)
    return text[at:end], end + len(quote)


def _unescape(text: str) -> str:
    """A string of Python or JSON. Raises ValueError for escapes that are rare, and for half a character."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_read_escape, text).encode("utf-16", "surrogatepass").decode("utf-16")


def _read_escape(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    if code:
        return chr(int(code, 16))
    if found[3] in _REFUSED_ESCAPES:
        raise ValueError(f"{found[0]} is not read")
    return _ESCAPED.get(found[3], found[0])


def _skip(text: str, at: int, mark: str) -> int:
    if not text.startswith(mark, at):
        raise ValueError(f"{text[at : at + 10]!r} is no {mark!r}")
    return at + len(mark)


def _skip_space(text: str, at: int) -> int:
    return require_match(_SPACE.match(text, at)).end()


def require_match(found: re.Match[str] | None) -> re.Match[str]:
    """What a pattern found. Raises ValueError if that is nothing."""
    if found is None:
        raise ValueError("another text was expected")
    return found
