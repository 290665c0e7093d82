"""Typed values in and out of a store: what stages hand to each other, behind a reference."""

import threading
from collections.abc import Iterable
from typing import Any, TypeVar

from components.artifacts import codec
from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt

T = TypeVar("T")

KEPT_BYTES = 16 << 20
"""So much, as stored, is kept in memory for the stage that reads it next; what is larger is read back from the store."""

_kept: dict[tuple[str, str], tuple[Any, int]] = {}
_lock = threading.Lock()


def put(store: ArtifactStore, value: Any, *, keep: bool = False) -> ArtifactRef:
    """The reference of a frozen dataclass or pydantic value, durable when this returns. Its kind is the type's name.

    With `keep`, `get` in this process returns the value itself, without reading or decoding, until `forget`.
    """
    ref = store.put_bytes(codec.encode(value), kind=type(value).__qualname__)
    if keep:
        _keep(store, ref, value)
    return ref.model_copy(update={"schema_version": codec.SCHEMA_VERSION})


def get(store: ArtifactStore, ref: ArtifactRef, as_type: type[T]) -> T:
    """The value behind `ref`, verified. Raises ArtifactCorrupt when it is of another kind or schema version."""
    if ref.kind != as_type.__qualname__:
        raise ArtifactCorrupt(f"{ref.key}: holds a {ref.kind}, not a {as_type.__qualname__}")
    if ref.schema_version != codec.SCHEMA_VERSION:
        raise ArtifactCorrupt(
            f"{ref.key}: schema version {ref.schema_version}, this program reads {codec.SCHEMA_VERSION}"
        )
    value, _ = _kept.get((store.uri, ref.sha256), (None, 0))
    return value if type(value) is as_type else codec.decode(store.get_bytes(ref), as_type)


def forget(store: ArtifactStore, refs: Iterable[ArtifactRef]) -> None:
    """Let go of what was kept: nobody is expected to read it soon."""
    with _lock:
        for ref in refs:
            _kept.pop((store.uri, ref.sha256), None)


def _keep(store: ArtifactStore, ref: ArtifactRef, value: Any) -> None:
    """Oldest first, others make room; what does not fit at all is not kept."""
    with _lock:
        _kept.pop((store.uri, ref.sha256), None)
        if ref.num_bytes > KEPT_BYTES:
            return
        while _kept and ref.num_bytes + sum(num_bytes for _, num_bytes in _kept.values()) > KEPT_BYTES:
            _kept.pop(next(iter(_kept)))
        _kept[store.uri, ref.sha256] = value, ref.num_bytes
