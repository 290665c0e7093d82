"""Payloads kept in memory for the next stage, which usually runs in the same process."""

import threading
from collections.abc import Iterable
from typing import Any, TypeVar

from components.artifacts import payloads
from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef

T = TypeVar("T")

KEPT_BYTES = 8 << 20
"""The most that is kept, in stored bytes; the rest is read back from the store."""


class KeptPayloads:
    """`payloads` over one store, with a cache of the values put here. The store has them all."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._kept: dict[str, tuple[Any, int]] = {}
        self._lock = threading.Lock()

    def put(self, value: Any) -> ArtifactRef:
        """Store `value` and keep it, dropping the oldest values if needed; its reference."""
        ref = payloads.put(self._store, value)
        with self._lock:
            self._kept.pop(ref.sha256, None)
            while self._kept and ref.num_bytes + self.num_bytes > KEPT_BYTES:
                self._kept.pop(next(iter(self._kept)))
            if ref.num_bytes <= KEPT_BYTES:
                self._kept[ref.sha256] = value, ref.num_bytes
        return ref

    def get(self, ref: ArtifactRef, as_type: type[T]) -> T:
        """The value of `ref`. Raises ArtifactCorrupt."""
        value, _ = self._kept.get(ref.sha256, (None, 0))
        return value if type(value) is as_type else payloads.get(self._store, ref, as_type)

    def forget(self, refs: Iterable[ArtifactRef]) -> None:
        """Drop values that will not be read again soon."""
        with self._lock:
            for ref in refs:
                self._kept.pop(ref.sha256, None)

    @property
    def num_bytes(self) -> int:
        """Stored bytes of the kept values."""
        return sum(num_bytes for _, num_bytes in self._kept.values())
