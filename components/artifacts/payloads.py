"""Typed values in and out of a store, by reference."""

from typing import Any, TypeVar

from components.artifacts import codec
from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt

T = TypeVar("T")


def put(store: ArtifactStore, value: Any) -> ArtifactRef:
    """Store a frozen dataclass or pydantic value; its reference, whose kind is the type's name."""
    ref = store.put_bytes(codec.encode(value), kind=type(value).__qualname__)
    return ref.model_copy(update={"schema_version": codec.SCHEMA_VERSION})


def get(store: ArtifactStore, ref: ArtifactRef, as_type: type[T]) -> T:
    """The verified value of `ref`. Raises ArtifactCorrupt if it has another kind or schema version."""
    if ref.kind != as_type.__qualname__:
        raise ArtifactCorrupt(f"{ref.key}: holds a {ref.kind}, not a {as_type.__qualname__}")
    if ref.schema_version != codec.SCHEMA_VERSION:
        raise ArtifactCorrupt(
            f"{ref.key}: schema version {ref.schema_version}, this program reads {codec.SCHEMA_VERSION}; "
            "use the version of Troupe that wrote it"
        )
    return codec.decode(store.get_bytes(ref), as_type)
