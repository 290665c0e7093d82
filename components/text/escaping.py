"""Untrusted text, escaped for terminals, pages and logs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_USER_OF_URL = re.compile(r"(?<=://)[^/\s@]{1,2000}@")
_QUERY_OF_URL = re.compile(r"(://[^\s?'\"]{1,2000})\?[^\s'\"]*")
_LONGEST_SHOWN = 120


def printable(text: str, *, keep: str = "\n\t") -> str:
    """`text` with all control characters escaped, except those in `keep`.

    **Example** `printable("\\x1b[31mred")` is the ten characters `\\x1b[31mred`.
    """
    return "".join(letter if letter in keep or letter.isprintable() else _spell(letter) for letter in text)


def without_passwords(text: str) -> str:
    """`text` without the user, password and query of every URL. **Example** "http://…@host" for "http://me:secret@host"."""
    return _QUERY_OF_URL.sub(r"\1?…", _USER_OF_URL.sub("…@", text))


def show_value(value: Any) -> str:
    """An invalid value for an error message: without passwords, at most 120 characters."""
    try:
        shown = without_passwords(repr(value))
    except ValueError:  # Python writes no integer of more than 4,300 digits
        shown = f"{type(value).__name__} with an integer of thousands of digits"
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def printable_document(document: Any) -> Any:
    """A JSON document with all strings and keys escaped to one line."""
    match document:
        case str():
            return printable(document, keep="")
        case Mapping():
            return {printable_document(key): printable_document(value) for key, value in document.items()}
        case Sequence():
            return [printable_document(value) for value in document]
        case _:
            return document


def markdown_cell(text: str) -> str:
    """`text` as a cell of a Markdown table, with markup, links and HTML escaped."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|&~-])", r"\\\1", printable(text, keep=""))


def _spell(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
