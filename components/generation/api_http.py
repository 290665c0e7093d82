"""Bounds on what a model's API may answer, in the HTTP client that both SDKs bring."""

from collections.abc import Iterator
from typing import Any

import httpx

MAX_ANSWER_BYTES = 8 << 20
"""Of one document; a million tokens of text are less."""


class _BoundedStream(httpx.SyncByteStream):
    """A body that ends with an error where it is longer than any true answer."""

    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        num_bytes = 0
        for chunk in self._stream:
            num_bytes += len(chunk)
            if num_bytes > MAX_ANSWER_BYTES:
                raise httpx.ReadError(f"an answer of more than {MAX_ANSWER_BYTES >> 20} MiB")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _bound(response: httpx.Response) -> None:
    """A hook for each answer, before its body is read."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise httpx.DecodingError(f"an answer in the encoding {encoding[:40]!r}, which was not asked for")
    assert isinstance(response.stream, httpx.SyncByteStream), type(response.stream)
    response.stream = _BoundedStream(response.stream)


BOUNDED: dict[str, Any] = {
    "headers": {"Accept-Encoding": "identity"},
    "event_hooks": {"response": [_bound]},
}
"""Arguments of an SDK's `DefaultHttpxClient`: nothing is unpacked, because a few compressed bytes become any number of them."""
