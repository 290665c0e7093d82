"""The one thing that is read of pickles: a text, without running the machine that a pickle is a program for."""

import re

_HEAD = re.compile(rb"\x80[\x02-\x05](?:\x95.{8})?(?:\x8c(?P<short>.)|X(?P<long>.{4}))", re.DOTALL)
"""Protocol 2 to 5, perhaps a frame, and the length of a text in one byte or four."""
_TAILS = (b"\x94.", b"q\x00.")
"""Remember it, and stop."""


def pickled_text(content: bytes) -> str:
    """The text that `pickle.dumps` made `content` from. Raises ValueError for every other pickle and for other bytes.

    **Example** `pickle.dumps("é")` is read; `pickle.dumps(["é"])` is refused.
    """
    head = _HEAD.match(content)
    if head is None:
        raise ValueError("no pickled text")
    end = head.end() + int.from_bytes(head["short"] or head["long"], "little")
    if content[end:] not in _TAILS:
        raise ValueError("a pickle that holds more than one text")
    return content[head.end() : end].decode("utf-8", "surrogatepass")
