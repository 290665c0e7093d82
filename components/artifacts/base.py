"""The store's border. Everything durable goes through these few verbs, over a directory or over S3."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from components.artifacts.refs import ArtifactRef


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One object as a listing shows it. `age_seconds` is by the store's own clock."""

    key: str
    num_bytes: int
    age_seconds: float


class ArtifactStore(Protocol):
    """Content-addressed payloads plus named records that are created at most once.

    Payloads (`put_bytes`, `put_folder`) may be written any number of times: equal bytes have one place. Records (`create`)
    are the commits: the first writer wins, every later one is told so and reads the winner's.

    Raises, all of them: StoreUnavailable (retry), StoreRefused, ArtifactMissing, ArtifactCorrupt.
    """

    @property
    def uri(self) -> str:
        """`file:///…` or `s3://bucket/prefix`: names the store, holds no credentials."""
        ...

    def check(self) -> None:
        """Raise StoreRefused unless the store is there and may be read. Writes and makes nothing."""
        ...

    def probe(self) -> None:
        """Prove that the store answers, may be written, and honours create-if-absent; raise StoreRefused if it does not."""
        ...

    def put_bytes(self, content: bytes, *, kind: str) -> ArtifactRef:
        """The reference of `content`, durable when this returns."""
        ...

    def get_bytes(self, ref: ArtifactRef) -> bytes:
        """The bytes behind `ref`, verified against its digest and size."""
        ...

    def put_folder(self, folder: Path) -> ArtifactRef:
        """The reference of a folder of files. All its files lie together under one key prefix, readable by other tools."""
        ...

    def get_folder(self, ref: ArtifactRef, into: Path, *, under: str = "") -> Path:
        """`into`, holding exactly the files of `ref`, each verified before it takes its final name.

        `under` asks only for the files whose paths begin so: of a checkpoint "model/" leaves the optimizer where it is.
        """
        ...

    def folder_uri(self, ref: ArtifactRef) -> str:
        """Where other programs (MLflow, aws s3) find the folder."""
        ...

    def create(self, key: str, content: bytes) -> bool:
        """Write a record unless it exists; True when this call wrote it."""
        ...

    def read(self, key: str) -> bytes | None:
        """A record's bytes, or None when there is none."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """The keys of records and payloads under `prefix`, in lexical order."""
        ...

    def scan(self, prefix: str) -> Iterator[StoredObject]:
        """What `list` gives, with sizes and ages, at the cost of the listing alone."""
        ...

    def delete(self, key: str) -> None:
        """Remove a record or a payload object; removing what is not there is no error."""
        ...

    def delete_all(self, keys: Sequence[str]) -> None:
        """What `delete` does for each of them, in as few requests as the store allows."""
        ...

    def age_seconds(self, key: str) -> float:
        """Seconds since the object was written, by the store's own clock."""
        ...

    def discard_unfinished(self, *, older_than_seconds: float, dry_run: bool) -> int:
        """Remove what interrupted writers left (open multipart uploads, temporary files); returns how many there are."""
        ...
