"""The characters of every model, and quotations of answers in messages."""

PRINTABLE = "\n" + "".join(map(chr, range(32, 127)))
"""The line feed and printable ASCII, in a fixed order."""
_SHOWN_CHARACTERS = 60


def quote_start(text: str) -> str:
    """The beginning of `text`, quoted, for a message."""
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


def shorten(text: str, max_characters: int) -> str:
    """`text`, cut to `max_characters` with an ellipsis."""
    return text if len(text) <= max_characters else text[: max(0, max_characters - 3)] + "..."


def is_text(text: str) -> bool:
    """Whether UTF-8 can encode `text`: it has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
