"""The artifact store over S3: digests on everything that moves, `If-None-Match: *` on everything that commits."""

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from components.artifacts import layout
from components.artifacts.base import StoredObject
from components.artifacts.local_files import store_errors
from components.artifacts.refs import ArtifactRef
from components.artifacts.s3_connection import ObjectExists, S3Connection
from components.artifacts.s3_objects import S3Objects, each
from components.errors import ArtifactMissing, StoreRefused

_PROBE_PATIENCE_SECONDS = 10.0


class S3ArtifactStore:
    """Artifacts in one bucket, below `prefix`. Thread-safe; the client is made on the first call.

    Every verb outlasts an outage of `retry_seconds` and then raises StoreUnavailable. Credentials come from the usual AWS
    chain (environment, profile, role) and are in no argument, message or `repr`.
    """

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "",
        endpoint_url: str | None = None,
        region: str | None = None,
        retry_seconds: float = 60.0,
    ) -> None:
        self._connection = S3Connection(bucket, endpoint_url=endpoint_url, region=region, retry_seconds=retry_seconds)
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._objects = S3Objects(self._connection, prefix=self._prefix)

    def __repr__(self) -> str:
        return f"S3ArtifactStore({self.uri!r}, endpoint_url={self.endpoint_url!r})"

    @property
    def uri(self) -> str:
        """`s3://bucket/prefix`."""
        return f"s3://{self._connection.bucket}/{self._prefix}".rstrip("/")

    @property
    def endpoint_url(self) -> str | None:
        """The server's address, None for AWS's own."""
        return self._connection.endpoint_url

    def check(self) -> None:
        """Raise StoreRefused unless the bucket is there and may be read. As impatient as `probe`."""
        connection = self._hastily()._connection
        if not connection.has_bucket():
            raise StoreRefused(f"no such bucket: {connection.place}; name another one with --store")

    def ensure_bucket(self) -> None:
        """Create the bucket unless it exists."""
        self._connection.ensure_bucket()

    def probe(self) -> None:
        """Prove that the bucket can be written, read and listed, and that a record cannot be created twice.

        Less patient than the other verbs: who starts a run against a server that is down wants to know at once.
        """
        self._hastily()._prove()

    def put_bytes(self, content: bytes, *, kind: str) -> ArtifactRef:
        """The reference of `content`, acknowledged by the server with its SHA-256."""
        ref = layout.payload_ref(content, kind=kind)
        self._objects.upload(ref.key, content, ref.sha256, ref.num_bytes)
        return ref

    def get_bytes(self, ref: ArtifactRef) -> bytes:
        """The bytes behind `ref`, verified."""
        content = self._objects.read(ref.key)
        if content is None:
            raise ArtifactMissing(f"{ref.key}: not in {self.uri}")
        return layout.check_content(ref, content)

    def put_folder(self, folder: Path) -> ArtifactRef:
        """The reference of a folder; its files go up side by side, below one key prefix."""
        with store_errors(folder):
            listing = layout.list_folder(folder)
        ref = layout.folder_ref(listing)
        each(
            lambda path: self._objects.upload(f"{ref.key}/{path}", folder / path, *listing[path]),
            layout.largest_first(listing),
        )
        return ref

    def get_folder(self, ref: ArtifactRef, into: Path, *, under: str = "") -> Path:
        """`into`, holding exactly the files of `ref`; those already there with the right bytes are kept."""
        listing = layout.files_under(layout.checked_listing(ref), under)
        with store_errors(into, use="filled"):
            into.mkdir(parents=True, exist_ok=True)
        each(
            lambda path: self._objects.download(f"{ref.key}/{path}", into / path, listing[path]),
            layout.largest_first(listing),
        )
        with store_errors(into, use="filled"):
            layout.prune_folder(into, listing)
        return into

    def folder_uri(self, ref: ArtifactRef) -> str:
        """Where other programs find the folder."""
        return f"s3://{self._connection.bucket}/{self._prefix}{ref.key}"

    def create(self, key: str, content: bytes) -> bool:
        """Write a record unless it exists.

        When an answer is lost, the second attempt finds the first one's record. A random token in the object's metadata
        tells it from a rival's, even from one of equal bytes.
        """
        token = secrets.token_hex(8)
        try:
            return self._objects.create(key, content, token=token)
        except ObjectExists as lost:
            if not lost.repeated:
                return False
            return bool(self._objects.head(key)["Metadata"].get("writer") == token)

    def read(self, key: str) -> bytes | None:
        """A record's bytes, or None when there is none."""
        return self._objects.read(key)

    def list(self, prefix: str) -> Iterator[str]:
        """The keys under `prefix` in lexical order."""
        return (found.key for found in self.scan(prefix))

    def scan(self, prefix: str) -> Iterator[StoredObject]:
        """The objects under `prefix` in lexical order, with their sizes and ages."""
        # Servers that keep directories list "a/b" before "a-b".
        return iter(sorted(self._objects.objects(prefix), key=lambda found: found.key))

    def delete(self, key: str) -> None:
        """Remove an object; removing what is not there is no error."""
        self._objects.delete(key)

    def delete_all(self, keys: Sequence[str]) -> None:
        """Remove objects, a thousand in a request."""
        self._objects.delete_all(keys)

    def age_seconds(self, key: str) -> float:
        """Seconds since the object was written."""
        return self._objects.age_seconds(key)

    def discard_unfinished(self, *, older_than_seconds: float, dry_run: bool) -> int:
        """Abort the multipart uploads of writers that died; returns how many there were."""
        stale = [found for found in self._objects.unfinished_uploads() if found.age_seconds >= older_than_seconds]
        for upload in [] if dry_run else stale:
            self._objects.abort(upload)
        return len(stale)

    def _hastily(self) -> "S3ArtifactStore":
        """The same store for questions to which nobody waits long for an answer."""
        there = self._connection
        return S3ArtifactStore(
            there.bucket,
            prefix=self._prefix,
            endpoint_url=there.endpoint_url,
            region=there.region,
            retry_seconds=min(_PROBE_PATIENCE_SECONDS, there.retry_seconds),
        )

    def _prove(self) -> None:
        if not self._connection.has_bucket():  # some servers would make it on the first write
            raise StoreRefused(
                f"{self._connection.place}: the bucket does not exist: create it, or name another one in store.bucket"
            )
        key = f"probe/{secrets.token_hex(8)}"
        created = self.create(key, b"first")
        try:
            if (created, self.create(key, b"second")) != (True, False) or self.read(key) != b"first":
                raise StoreRefused(
                    f"{self._connection.place} ignores If-None-Match, so two writers could both commit: "
                    "use a server that honours it (AWS S3, SeaweedFS 4.48 or newer)"
                )
            if list(self.list(key)) != [key]:
                raise StoreRefused(f"{self._connection.place} does not list what was just written: use another server")
        finally:
            self.delete(key)
