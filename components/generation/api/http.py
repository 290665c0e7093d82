"""Size limits on the answers of an API, as hooks of the SDKs' HTTP clients."""

from collections.abc import Iterator
from typing import Any

from components.errors import ApiIncompatible

MAX_ANSWER_BYTES = 8 << 20
"""Per document; more than a million tokens of text."""


def _bound(response: Any) -> None:
    """Limit a response before its body is read. An exception raised here becomes the cause of the SDK's error."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ApiIncompatible(f"the body came in the encoding {encoding[:40]!r}, which was not requested")
    read = response.iter_raw

    def read_bounded(*arguments: Any) -> Iterator[bytes]:
        num_bytes = 0
        for chunk in read(*arguments):
            num_bytes += len(chunk)
            if num_bytes > MAX_ANSWER_BYTES:
                raise ApiIncompatible(f"the body has more than {MAX_ANSWER_BYTES >> 20} MiB")
            yield chunk

    response.iter_raw = read_bounded


BOUNDED: dict[str, Any] = {
    "headers": {"Accept-Encoding": "identity"},
    "event_hooks": {"response": [_bound]},
}
"""Arguments for an SDK's `DefaultHttpxClient`. Nothing is decompressed, because few bytes may expand to any number."""
