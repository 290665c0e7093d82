"""Payloads kept in memory for the stage that reads them next, which is most often of the same process."""

import threading
from collections.abc import Iterable
from typing import Any, TypeVar

from components.artifacts import payloads
from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef

T = TypeVar("T")

KEPT_BYTES = 8 << 20
"""So much, as stored, is kept; what is larger is read back from the store."""


class KeptPayloads:
    """`payloads` over one store. What was put here is given back as it is, without reading or decoding, until it is forgotten.

    The store has it all: a process that keeps nothing reads the same values.
    """

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._kept: dict[str, tuple[Any, int]] = {}
        self._lock = threading.Lock()

    def put(self, value: Any) -> ArtifactRef:
        """The reference of `value`, durable before what is committed next. The oldest values make room for it."""
        ref = payloads.put(self._store, value)
        with self._lock:
            self._kept.pop(ref.sha256, None)
            while self._kept and ref.num_bytes + self.num_bytes > KEPT_BYTES:
                self._kept.pop(next(iter(self._kept)))
            if ref.num_bytes <= KEPT_BYTES:
                self._kept[ref.sha256] = value, ref.num_bytes
        return ref

    def get(self, ref: ArtifactRef, as_type: type[T]) -> T:
        """The value behind `ref`. Raises ArtifactCorrupt as `payloads.get` does."""
        value, _ = self._kept.get(ref.sha256, (None, 0))
        return value if type(value) is as_type else payloads.get(self._store, ref, as_type)

    def forget(self, refs: Iterable[ArtifactRef]) -> None:
        """Let go of what nobody is expected to read soon."""
        with self._lock:
            for ref in refs:
                self._kept.pop(ref.sha256, None)

    @property
    def num_bytes(self) -> int:
        """Bytes of what is kept, as stored."""
        return sum(num_bytes for _, num_bytes in self._kept.values())
