"""What every store does alike: content is checked on its way in and out, whatever keeps the objects."""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from components.artifacts import layout
from components.artifacts.base import StoredObject
from components.artifacts.local_files import store_errors
from components.artifacts.parallel import in_parallel
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactMissing, StoreRefused

_NUM_TRANSFERS = 4
"""Files that move side by side."""


class ContentStore(ABC):
    """The verbs of an `ArtifactStore` that stand on those for single objects."""

    @property
    @abstractmethod
    def uri(self) -> str: ...

    @abstractmethod
    def create(self, key: str, content: bytes) -> bool: ...

    @abstractmethod
    def read(self, key: str) -> bytes | None: ...

    @abstractmethod
    def scan(self, prefix: str) -> Iterator[StoredObject]: ...

    @abstractmethod
    def delete(self, key: str) -> None: ...

    @abstractmethod
    def _upload(self, key: str, source: bytes | Path, sha256: str, num_bytes: int) -> None:
        """Make `key` hold these bytes, durable when this returns, unless it holds them and is young."""

    @abstractmethod
    def _download(self, key: str, target: Path) -> tuple[Path, tuple[str, int]]:
        """A temporary file beside `target` with an object's bytes, and their (sha256, num_bytes). Raises ArtifactMissing."""

    def put_bytes(self, content: bytes, *, kind: str) -> ArtifactRef:
        """The reference of `content`, durable when this returns."""
        ref = layout.payload_ref(content, kind=kind)
        self._upload(ref.key, content, ref.sha256, ref.num_bytes)
        return ref

    def get_bytes(self, ref: ArtifactRef) -> bytes:
        """The bytes behind `ref`, verified."""
        content = self.read(ref.key)
        if content is None:
            raise ArtifactMissing(f"{ref.key}: not in {self.uri}")
        return layout.check_content(ref, content)

    def put_folder(self, folder: Path) -> ArtifactRef:
        """The reference of a folder; its files move side by side, below one key prefix."""
        with store_errors(folder):
            listing = layout.list_folder(folder)
        ref = layout.folder_ref(listing)

        def put(path: str) -> None:
            self._upload(f"{ref.key}/{path}", folder / path, *listing[path])

        in_parallel(put, layout.largest_first(listing), num_threads=_NUM_TRANSFERS)
        return ref

    def get_folder(self, ref: ArtifactRef, into: Path, *, under: str = "") -> Path:
        """`into`, holding exactly the files of `ref`; those already there with the right bytes are kept."""
        listing = layout.files_under(layout.checked_listing(ref), under)
        with store_errors(into, use="filled"):
            into.mkdir(parents=True, exist_ok=True)

        def fill(path: str) -> None:
            self._fill(into / path, f"{ref.key}/{path}", listing[path])

        in_parallel(fill, layout.largest_first(listing), num_threads=_NUM_TRANSFERS)
        with store_errors(into, use="filled"):
            layout.prune_folder(into, listing)
        return into

    def list(self, prefix: str) -> Iterator[str]:
        """The keys under `prefix` in lexical order."""
        return (found.key for found in self.scan(prefix))

    def _fill(self, target: Path, key: str, promised: tuple[str, int]) -> None:
        """Make `target` hold an object's bytes; they take this name after they were verified."""
        with store_errors(target, use="filled"):
            if layout.file_matches(target, *promised):
                return
        part, found = self._download(key, target)
        try:
            layout.check_digest(key, promised, found)
            with store_errors(target, use="filled"):
                os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)

    def _prove(self, *, place: str, otherwise: str) -> None:
        """Prove that records can be created once, read, listed and removed. Raises StoreRefused: `place` and `otherwise`, which
        says what a store does that lets a record be created twice."""
        key = f"probe/{secrets.token_hex(8)}"
        created = self.create(key, b"first")
        try:
            if (created, self.create(key, b"second")) != (True, False) or self.read(key) != b"first":
                raise StoreRefused(f"{place} {otherwise}")
            if [*self.list(key)] != [key]:
                raise StoreRefused(f"{place} does not list what was just written: use another")
        finally:
            self.delete(key)
