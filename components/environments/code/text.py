"""Text for agents: printable ASCII and newlines, bounded in length."""

import re
import unicodedata

from components.environments.shared.text import PRINTABLE

_PLAIN = str.maketrans(
    {
        "\t": "    ",
        "\r": None,
        "\u2264": "<=",
        "\u2265": ">=",
        "\u2260": "!=",
        "\u00d7": "*",
        "\u00b7": "*",
        "\u2212": "-",
        "\u2013": "-",
        "\u2014": "-",
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2026": "...",
        "\u2192": "->",
        "\u279e": "->",
        "\u00a0": " ",
    }
)


def plain_prose(text: str) -> str:
    """A statement in printable ASCII: signs transliterated, accents dropped, the rest as escapes."""
    if text.isascii():
        return printable(text.translate(_PLAIN))
    return printable(unicodedata.normalize("NFKD", text.translate(_PLAIN)).translate(_WITHOUT_ACCENTS))


def printable(text: str) -> str:
    """`text` with every character outside `PRINTABLE` as a Python escape, so that nothing is lost."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(c if c in _KNOWN else c.encode("unicode_escape").decode("ascii") for c in text)


def nests_deep(text: str) -> bool:
    """Whether more than 64 brackets are open at once outside quotes. Parsers fail on such text at a depth that depends on their
    caller's stack, so it is refused before."""
    if text.count("[") + text.count("{") + text.count("(") <= _MAX_DEPTH:
        return False
    depth = 0
    for token in _QUOTES_AND_BRACKETS.findall(text):
        depth += (token in "[{(") - (token in ")}]")
        if depth > _MAX_DEPTH:
            return True
    return False


_MAX_DEPTH = 64
_QUOTES_AND_BRACKETS = re.compile(
    r""""(?:[^"\\]|\\.|\\\Z)*(?:"|\Z)|'(?:[^'\\]|\\.|\\\Z)*(?:'|\Z)|[\[{(\]})]""", re.DOTALL
)
"""An unterminated string matches to the end, so one pass reads any text."""
_KNOWN = frozenset(PRINTABLE)
_WITHOUT_ACCENTS = dict.fromkeys(range(768, 880))
