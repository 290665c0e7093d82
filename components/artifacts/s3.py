"""The artifact store over S3: digests on everything that moves, `If-None-Match: *` on everything that commits."""

import base64
import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from components.artifacts import layout
from components.artifacts.base import ArtifactStore, SignedFile, StoredObject
from components.artifacts.local_files import store_errors, write_part
from components.artifacts.refs import ArtifactRef
from components.artifacts.s3_connection import PART_BYTES, Addressing, ObjectExists, ObjectMissing, S3Connection
from components.artifacts.s3_errors import read_status
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused, StoreUnavailable

T = TypeVar("T")

_HEAD_PAYS_BYTES = PART_BYTES
"""From this size on, asking whether an object exists pays. Most objects are new, and smaller ones are sent at once."""
_CHUNK_BYTES = 1 << 20
_MOST_DELETED = 1000
_NUM_WITNESSES = 4
_PROBE_PATIENCE_SECONDS = 10.0


class S3ArtifactStore(ArtifactStore):
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
        addressing: Addressing = "auto",
        retry_seconds: float = 60.0,
    ) -> None:
        self._connection = S3Connection(
            bucket, endpoint_url=endpoint_url, region=region, addressing=addressing, retry_seconds=retry_seconds
        )
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    def __repr__(self) -> str:
        return f"S3ArtifactStore({self.uri!r}, endpoint_url={self.endpoint_url!r})"

    @property
    def uri(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def endpoint_url(self) -> str | None:
        """The server's address, None for AWS's own."""
        return self._connection.endpoint_url

    def check(self) -> None:
        connection = self._impatient()._connection
        if not connection.has_bucket():
            raise StoreRefused(f"no such bucket: {connection.place}; name another one with --store")

    def ensure_bucket(self) -> None:
        """Create the bucket unless it exists."""
        if not self._connection.has_bucket():
            self._connection.create_bucket()

    def probe(self) -> None:
        store = self._impatient()
        place = store._connection.place
        if not store._connection.has_bucket():  # some servers would create it on the first write
            raise StoreRefused(f"{place}: the bucket does not exist: create it, or name another one in store.bucket")
        store._prove(
            place=place,
            otherwise="ignores If-None-Match, so two writers could both commit: use a server that honours it (AWS S3, "
            "SeaweedFS 4.48 or newer)",
        )

    def sign_folder(self, ref: ArtifactRef, *, under: str, seconds: float) -> tuple[SignedFile, ...]:
        def sign(s3: Any, path: str) -> str:
            address = self._address(f"{ref.key}/{path}")
            return str(s3.generate_presigned_url("get_object", Params=address, ExpiresIn=int(seconds)))

        listing = layout.files_under(layout.check_listing(ref), under)
        return tuple(
            SignedFile(
                path=path.removeprefix(under),
                sha256=sha256,
                num_bytes=num_bytes,
                url=self._connection.call(f"sign {path}", partial(sign, path=path)),
            )
            for path, (sha256, num_bytes) in listing.items()
        )

    def folder_uri(self, ref: ArtifactRef) -> str:
        return f"s3://{self._bucket}/{self._prefix}{ref.key}"

    def read(self, key: str) -> bytes | None:
        def attempt(s3: Any) -> bytes:
            content: bytes = s3.get_object(**self._address(key))["Body"].read()
            return content

        try:
            return self._transfer("read", key, attempt)
        except ArtifactMissing:
            return None

    def digest(self, key: str) -> tuple[str, int]:
        def attempt(s3: Any) -> tuple[str, int]:
            digest, num_bytes = hashlib.sha256(), 0
            for chunk in s3.get_object(**self._address(key))["Body"].iter_chunks(_CHUNK_BYTES):
                digest.update(chunk)
                num_bytes += len(chunk)
            return digest.hexdigest(), num_bytes

        return self._transfer("read", key, attempt)

    def create(self, key: str, content: bytes) -> bool:
        """Write a record unless it exists: a PUT with `If-None-Match: *`.

        If a response is lost, the second attempt finds the record of the first. A random token in the object's metadata
        distinguishes it from another writer's record, even one of equal bytes.
        """
        token = secrets.token_hex(8)
        sha256 = hashlib.sha256(content).hexdigest()
        try:
            self._put("create", key, content, sha256, metadata={"writer": token}, IfNoneMatch="*")
        except ObjectExists as lost:
            found = self._head(key) if lost.repeated else None
            return found is not None and found["Metadata"].get("writer") == token
        return True

    def scan(self, prefix: str) -> Iterator[StoredObject]:
        found = [
            StoredObject(
                key=each["Key"].removeprefix(self._prefix),
                num_bytes=each["Size"],
                age_seconds=_age_seconds(page, each["LastModified"]),
            )
            for page in self._pages("list_objects_v2", {"Prefix": self._prefix + prefix}, ("ContinuationToken",))
            for each in page.get("Contents", [])
        ]
        # Servers that keep directories list "a/b" before "a-b".
        return iter(sorted(found, key=lambda each: each.key))

    def delete(self, key: str) -> None:
        self._connection.call(f"delete {key}", lambda s3: s3.delete_object(**self._address(key)))

    def delete_all(self, keys: Sequence[str]) -> None:
        for first in range(0, len(keys), _MOST_DELETED):
            wanted = [{"Key": self._prefix + key} for key in keys[first : first + _MOST_DELETED]]
            response = self._page("delete_objects", {"Delete": {"Objects": wanted, "Quiet": True}})
            # A single delete says why an object was not deleted with its batch.
            for failed in response.get("Errors", []):
                self.delete(failed["Key"].removeprefix(self._prefix))

    def discard_unfinished(self, *, older_than_seconds: float, dry_run: bool) -> int:
        stale = [
            found
            for page in self._pages("list_multipart_uploads", {"Prefix": self._prefix}, ("KeyMarker", "UploadIdMarker"))
            for found in page.get("Uploads", [])
            if _age_seconds(page, found["Initiated"]) >= older_than_seconds
        ]
        for found in [] if dry_run else stale:
            with suppress(ObjectMissing):
                self._page("abort_multipart_upload", {"Key": found["Key"], "UploadId": found["UploadId"]})
        return len(stale)

    def _upload(self, key: str, source: bytes | Path, sha256: str, num_bytes: int) -> None:
        if num_bytes >= _HEAD_PAYS_BYTES and self._has_young(key, sha256, num_bytes):
            return
        if isinstance(source, bytes) or num_bytes <= PART_BYTES:
            content = source if isinstance(source, bytes) else _file_content(source, sha256)
            self._put("upload", key, content, sha256, metadata={"sha256": sha256})
            return

        def attempt(s3: Any) -> None:
            with source.open("rb") as file:
                self._connection.upload(s3, self._prefix + key, file, {"sha256": sha256})

        self._connection.call(f"upload {key}", attempt)

    def _download(self, key: str, target: Path) -> tuple[Path, tuple[str, int]]:
        def attempt(s3: Any) -> tuple[Path, tuple[str, int]]:
            body = s3.get_object(**self._address(key))["Body"]
            with store_errors(target, use="filled"):
                return write_part(target, body.iter_chunks(_CHUNK_BYTES), sync=False)

        return self._transfer("download", key, attempt)

    def _impatient(self) -> "S3ArtifactStore":
        """The same store with little patience: at the start of a run the user waits for the answer."""
        connection = self._connection
        return S3ArtifactStore(
            self._bucket,
            prefix=self._prefix,
            endpoint_url=connection.endpoint_url,
            region=connection.region,
            addressing=connection.addressing,
            retry_seconds=min(_PROBE_PATIENCE_SECONDS, connection.retry_seconds),
        )

    def _address(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _transfer(self, action: str, key: str, attempt: Callable[[Any], T]) -> T:
        """What `attempt` reads of an object. Raises ArtifactMissing; ArtifactCorrupt if only this object fails."""
        try:
            return self._connection.call(f"{action} {key}", attempt)
        except ObjectMissing as error:
            raise ArtifactMissing(f"{key}: not in {self._connection.place}") from error
        except StoreUnavailable as error:
            self._check_corrupt(key, error)
            raise

    def _check_corrupt(self, key: str, error: StoreUnavailable) -> None:
        """Raise ArtifactCorrupt if the server fails at this object and returns others: the stored bytes are damaged."""
        if read_status(error.__cause__) != HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        page = self._once(
            lambda s3: s3.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=_NUM_WITNESSES)
        )
        others = [found["Key"] for found in (page or {}).get("Contents", []) if found["Key"] != self._prefix + key]
        if any(self._is_readable(name) for name in others) and not self._is_readable(self._prefix + key):
            raise ArtifactCorrupt(
                f"{key}: {self._connection.place} returns other objects and not this one, so it is damaged there ({error})"
            ) from error

    def _is_readable(self, name: str) -> bool:
        def read_byte(s3: Any) -> bool:
            with closing(s3.get_object(Bucket=self._bucket, Key=name)["Body"]) as body:
                body.read(1)
            return True

        return bool(self._once(read_byte))

    def _once(self, attempt: Callable[[Any], T]) -> T | None:
        """The result of a single attempt, None if it fails."""
        try:
            return self._connection.call("look around", attempt, retry_seconds=0)
        except (StoreUnavailable, StoreRefused, ObjectMissing):
            return None

    def _pages(self, operation: str, arguments: dict[str, str], markers: tuple[str, ...]) -> Iterator[Any]:
        """All pages of a listing; each of `markers` takes its `Next…` value from the page before."""
        page: dict[str, Any] = {"IsTruncated": True}
        while page.get("IsTruncated"):
            resume = {marker: page[f"Next{marker}"] for marker in markers if f"Next{marker}" in page}
            page = self._page(operation, {**arguments, **resume})
            yield page

    def _page(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self._connection.call(operation, lambda s3: getattr(s3, operation)(Bucket=self._bucket, **arguments))

    def _head(self, key: str) -> Any:
        """An object's size, metadata and time, or None."""
        try:
            return self._connection.call(f"look at {key}", lambda s3: s3.head_object(**self._address(key)))
        except ObjectMissing:
            return None

    def _has_young(self, key: str, sha256: str, num_bytes: int) -> bool:
        found = self._head(key)
        if found is None or (found["ContentLength"], found["Metadata"].get("sha256")) != (num_bytes, sha256):
            return False
        return _age_seconds(found, found["LastModified"]) < layout.REUSE_SECONDS

    def _put(
        self, action: str, key: str, content: bytes, sha256: str, *, metadata: dict[str, str], **condition: str
    ) -> None:
        """One PUT that the server refuses if the bytes it received have another SHA-256."""
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        arguments = {"Body": content, "ChecksumSHA256": checksum, "Metadata": metadata, **condition}
        self._connection.call(f"{action} {key}", lambda s3: s3.put_object(**self._address(key), **arguments))


def _file_content(path: Path, sha256: str) -> bytes:
    with store_errors(path):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ArtifactCorrupt(f"{path} changed while it was being stored")
    return content


def _age_seconds(response: Any, written_at: datetime) -> float:
    """By the `Date` of the server's response, so that a wrong clock here has no effect."""
    now = parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
    return max(0.0, (now - written_at).total_seconds())
