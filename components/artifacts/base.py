"""The store's border. Everything durable goes through these few verbs, over a directory or over S3."""

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
"""Whether another writer's record says what the own one would have said."""

_NUM_TRANSFERS = 4
"""Files that move side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One object as a listing shows it. `age_seconds` is by the store's own clock."""

    key: str
    num_bytes: int
    age_seconds: float


class ArtifactStore(ABC):
    """Content-addressed payloads plus named records that are created at most once.

    Payloads (`put_bytes`, `put_folder`) may be written any number of times: equal bytes have one place. Records (`create`)
    are the commits: the first writer wins, every later one is told so and reads the winner's.

    What is alike in every store stands here: content is checked on its way in and out. The rest is for one over a directory, or
    over S3, to fill in. Raises, all of them: StoreUnavailable (retry), StoreRefused, ArtifactMissing, ArtifactCorrupt.
    """

    @property
    @abstractmethod
    def uri(self) -> str:
        """`file:///…` or `s3://bucket/prefix`: names the store, holds no credentials."""

    @abstractmethod
    def check(self) -> None:
        """Raise StoreRefused unless the store is there and may be read. Writes and makes nothing."""

    @abstractmethod
    def probe(self) -> None:
        """Prove that the store answers, may be written, and honours create-if-absent; raise StoreRefused if it does not."""

    def put_bytes(self, content: bytes, *, kind: str) -> ArtifactRef:
        """The reference of `content`, durable when this returns."""
        ref = layout.payload_ref(content, kind=kind)
        self._upload(ref.key, content, ref.sha256, ref.num_bytes)
        return ref

    def get_bytes(self, ref: ArtifactRef) -> bytes:
        """The bytes behind `ref`, verified against its digest and size."""
        content = self.read(ref.key)
        if content is None:
            raise ArtifactMissing(f"{ref.key}: not in {self.uri}")
        return layout.check_content(ref, content)

    def put_folder(self, folder: Path, listing: layout.Listing | None = None) -> ArtifactRef:
        """The reference of a folder of files. All its files lie together under one key prefix, readable by other tools.

        `listing` is the folder's, if it is known already.
        """
        listing = layout.list_folder(folder) if listing is None else listing
        ref = layout.folder_ref(listing)

        def put(path: str) -> None:
            self._upload(f"{ref.key}/{path}", folder / path, *listing[path])

        in_parallel(put, layout.largest_first(listing), num_threads=_NUM_TRANSFERS)
        return ref

    def get_folder(self, ref: ArtifactRef, into: Path, *, under: str = "") -> Path:
        """`into`, holding exactly the files of `ref`, each verified before it takes its final name.

        `under` asks only for the files whose paths begin so: of a checkpoint "model/" leaves the optimizer where it is.
        """
        listing = layout.files_under(layout.checked_listing(ref), under)
        with store_errors(into, use="filled"):
            into.mkdir(parents=True, exist_ok=True)

        def fill(path: str) -> None:
            self._fill(into / path, f"{ref.key}/{path}", listing[path])

        in_parallel(fill, layout.largest_first(listing), num_threads=_NUM_TRANSFERS)
        with store_errors(into, use="filled"):
            layout.prune_folder(into, listing)
        return into

    @abstractmethod
    def folder_uri(self, ref: ArtifactRef) -> str:
        """Where other programs (MLflow, aws s3) find the folder."""

    @abstractmethod
    def create(self, key: str, content: bytes) -> bool:
        """Write a record unless it exists; True when this call wrote it."""

    def create_later(self, key: str, content: bytes, *, agrees: Agreement) -> bool:
        """What `create` does, perhaps behind the caller, to whom it is then True."""
        return self.create(key, content)

    def do_later(self, work: Callable[[], object]) -> None:
        """Do `work` after everything that was written before; here and now unless writes are made behind.

        It may use `written` alone: of the store itself it would wait for its own end.
        """
        work()

    @property
    def written(self) -> "ArtifactStore":
        """The store as other processes see it."""
        return self

    def settle(self) -> None:  # noqa: B027
        """Wait until everything that was written behind is durable. Raises what went wrong with it."""

    @abstractmethod
    def read(self, key: str) -> bytes | None:
        """A record's bytes, or None when there is none."""

    def list(self, prefix: str) -> Iterator[str]:
        """The keys of records and payloads under `prefix`, in lexical order."""
        return (found.key for found in self.scan(prefix))

    @abstractmethod
    def scan(self, prefix: str) -> Iterator[StoredObject]:
        """What `list` gives, with sizes and ages, at the cost of the listing alone."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove a record or a payload object; removing what is not there is no error."""

    @abstractmethod
    def delete_all(self, keys: Sequence[str]) -> None:
        """What `delete` does for each of them, in as few requests as the store allows."""

    @abstractmethod
    def discard_unfinished(self, *, older_than_seconds: float, dry_run: bool) -> int:
        """Remove what interrupted writers left (open multipart uploads, temporary files); returns how many there are."""

    @abstractmethod
    def _upload(self, key: str, source: bytes | Path, sha256: str, num_bytes: int) -> None:
        """Make `key` hold these bytes, durable when this returns, unless it holds them and is young."""

    @abstractmethod
    def _download(self, key: str, target: Path) -> tuple[Path, tuple[str, int]]:
        """A temporary file beside `target` with an object's bytes, and their (sha256, num_bytes). Raises ArtifactMissing."""

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
