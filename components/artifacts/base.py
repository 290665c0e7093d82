"""The interface of artifact stores, over a directory or over S3."""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.artifacts import layout
from components.artifacts.local_files import store_errors
from components.artifacts.parallel import in_parallel
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactMissing, StoreRefused

Agreement = Callable[[bytes], bool]
"""Whether another process's record is equivalent to the one being written."""

_NUM_TRANSFERS = 4
"""Files transferred in parallel."""
_WORTH_THREADS_BYTES = 1 << 25
"""Smaller folders are stored file by file: more threads would take turns with the stage that computes meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One listed object. `age_seconds` is by the store's own clock."""

    key: str
    num_bytes: int
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedFile:
    """A stored file, and an address that gives it to whoever knows that address, for a limited time."""

    path: str
    sha256: str
    num_bytes: int
    url: str


class ArtifactStore(ABC):
    """Content-addressed payloads plus named records that are created at most once.

    Payloads (`put_bytes`, `put_folder`) may be written any number of times: equal bytes share one key. Records (`create`) are
    the commits: the first writer wins; later ones get False and read the winner's.

    This class checks content on its way in and out; subclasses move bytes. All methods may raise StoreUnavailable (retry),
    StoreRefused, ArtifactMissing or ArtifactCorrupt.
    """

    @property
    @abstractmethod
    def uri(self) -> str:
        """`file:///…` or `s3://bucket/prefix`, without credentials."""

    @abstractmethod
    def check(self) -> None:
        """Raise StoreRefused unless the store exists and is readable. Writes nothing."""

    @abstractmethod
    def probe(self) -> None:
        """Check that the store is writable and honours create-if-absent. Raises StoreRefused."""

    def put_bytes(self, content: bytes, *, kind: str) -> ArtifactRef:
        """Store `content`; its reference."""
        ref = layout.payload_ref(content, kind=kind)
        self._upload(ref.key, content, ref.sha256, ref.num_bytes)
        return ref

    def get_bytes(self, ref: ArtifactRef) -> bytes:
        """The bytes of `ref`, verified against its digest and size."""
        content = self.read(ref.key)
        if content is None:
            raise ArtifactMissing(f"{ref.key}: not in {self.uri}")
        return layout.check_content(ref, content)

    def put_folder(self, folder: Path, listing: layout.Listing | None = None) -> ArtifactRef:
        """Store a folder of files under one key prefix, readable by other tools; its reference.

        `listing` is the folder's, if already known.
        """
        listing = layout.list_folder(folder) if listing is None else listing
        ref = layout.folder_ref(listing)

        def put(path: str) -> None:
            self._upload(f"{ref.key}/{path}", folder / path, *listing[path])

        num_threads = _NUM_TRANSFERS if ref.num_bytes >= _WORTH_THREADS_BYTES else 1
        in_parallel(put, layout.largest_first(listing), num_threads=num_threads)
        return ref

    def put_parts(self, folder: Path, listing: layout.Listing) -> ArtifactRef:
        """Store those files of `listing` that are in `folder`, under the key of the whole; the whole's reference.

        Hosts that hold parts of one folder each store theirs, and agree on the key without asking each other.
        """
        ref = layout.folder_ref(listing)
        for path in layout.largest_first(listing):
            if (folder / path).is_file():
                self._upload(f"{ref.key}/{path}", folder / path, *listing[path])
        return ref

    def get_folder(self, ref: ArtifactRef, into: Path, *, under: str = "") -> Path:
        """Fill `into` with exactly the files of `ref`, each verified before it gets its final name; returns `into`.

        `under` selects files by path prefix: "model/" skips a checkpoint's optimizer.
        """
        listing = layout.files_under(layout.check_listing(ref), under)
        with store_errors(into, use="filled"):
            into.mkdir(parents=True, exist_ok=True)

        def fill(path: str) -> None:
            self._fill(into / path, f"{ref.key}/{path}", listing[path])

        in_parallel(fill, layout.largest_first(listing), num_threads=_NUM_TRANSFERS)
        with store_errors(into, use="filled"):
            layout.prune_folder(into, listing)
        return into

    def sign_folder(self, ref: ArtifactRef, *, under: str, seconds: float) -> tuple[SignedFile, ...]:
        """The files of a folder whose paths begin with `under`, for who has no credentials; none where files have no address.

        Waits until they are durable. Paths are below `under`.
        """
        if self.durable is self:
            return ()
        self.flush()
        return self.durable.sign_folder(ref, under=under, seconds=seconds)

    @abstractmethod
    def folder_uri(self, ref: ArtifactRef) -> str:
        """The folder's address for other programs (MLflow, aws s3)."""

    @abstractmethod
    def create(self, key: str, content: bytes) -> bool:
        """Write a record unless it exists; True if this call wrote it."""

    def create_later(self, key: str, content: bytes, *, agrees: Agreement) -> bool:
        """Like `create`, possibly in the background: True then means that no conflict is known yet."""
        return self.create(key, content)

    def after_writes(self, work: Callable[[], object]) -> None:
        """Do `work` after all earlier writes: immediately, or in the background.

        `work` may use only `durable`: the store itself would wait for `work` to end.
        """
        work()

    @property
    def durable(self) -> "ArtifactStore":
        """The store as other processes see it."""
        return self

    def flush(self) -> None:  # noqa: B027
        """Wait until background writes are durable. Raises their error."""

    def close(self, *, timeout_seconds: float | None = None) -> None:  # noqa: B027
        """Wait for background writes until one fails, and drop the rest."""

    @abstractmethod
    def read(self, key: str) -> bytes | None:
        """A record's bytes, or None when there is none."""

    @abstractmethod
    def digest(self, key: str) -> tuple[str, int]:
        """The (sha256, num_bytes) of an object's bytes, read in chunks and kept nowhere. Raises ArtifactMissing."""

    def list(self, prefix: str) -> Iterator[str]:
        """The keys of records and payloads under `prefix`, in lexical order."""
        return (found.key for found in self.scan(prefix))

    @abstractmethod
    def scan(self, prefix: str) -> Iterator[StoredObject]:
        """Like `list`, with sizes and ages, at the same cost."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove a record or a payload object. A missing one is no error."""

    @abstractmethod
    def delete_all(self, keys: Sequence[str]) -> None:
        """Like `delete` for each key, in as few requests as the store allows."""

    @abstractmethod
    def discard_unfinished(self, *, older_than_seconds: float, dry_run: bool) -> int:
        """Remove leftovers of interrupted writers (open multipart uploads, temporary files); returns their number."""

    @abstractmethod
    def _upload(self, key: str, source: bytes | Path, sha256: str, num_bytes: int) -> None:
        """Store these bytes under `key`, unless it holds them and is young."""

    @abstractmethod
    def _download(self, key: str, target: Path) -> tuple[Path, tuple[str, int]]:
        """A temporary file beside `target` with an object's bytes, and their (sha256, num_bytes). Raises ArtifactMissing."""

    def _fill(self, target: Path, key: str, promised: tuple[str, int]) -> None:
        """Fill `target` with an object's bytes, renamed into place after verification."""
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
        """Check that records can be created once, read, listed and removed. Raises StoreRefused with `place` and `otherwise`,
        the text for a store that creates a record twice."""
        key = f"probe/{secrets.token_hex(8)}"
        created = self.create(key, b"first")
        try:
            if (created, self.create(key, b"second")) != (True, False) or self.read(key) != b"first":
                raise StoreRefused(f"{place} {otherwise}")
            if [*self.list(key)] != [key]:
                raise StoreRefused(f"{place} does not list what was just written: use another")
        finally:
            self.delete(key)
