"""Bounds on what a model's API may answer, as hooks of the HTTP clients that the SDKs bring."""

from collections.abc import Iterator
from typing import Any

from components.errors import ApiIncompatible

MAX_ANSWER_BYTES = 8 << 20
"""Of one document; a million tokens of text are less."""


def _bound(response: Any) -> None:
    """A hook for each answer, before its body is read. What it raises is the cause of the SDK's own error."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ApiIncompatible(f"the body came in the encoding {encoding[:40]!r}, which was not asked for")
    read = response.iter_raw

    def bounded(*arguments: Any) -> Iterator[bytes]:
        num_bytes = 0
        for chunk in read(*arguments):
            num_bytes += len(chunk)
            if num_bytes > MAX_ANSWER_BYTES:
                raise ApiIncompatible(f"the body has more than {MAX_ANSWER_BYTES >> 20} MiB")
            yield chunk

    response.iter_raw = bounded


BOUNDED: dict[str, Any] = {
    "headers": {"Accept-Encoding": "identity"},
    "event_hooks": {"response": [_bound]},
}
"""Arguments of an SDK's `DefaultHttpxClient`: nothing is unpacked, because a few compressed bytes become any number of them."""
