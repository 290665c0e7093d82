"""Objects of one bucket below one prefix: heads, transfers that are verified, listings, unfinished uploads."""

import base64
import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from components.artifacts import layout
from components.artifacts.base import StoredObject
from components.artifacts.local_files import store_errors, write_part
from components.artifacts.s3_connection import PART_BYTES, ObjectExists, ObjectMissing, S3Connection
from components.artifacts.s3_errors import answered_status
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused, StoreUnavailable

_HEAD_PAYS_BYTES = 1 << 20
"""From this size on, asking whether an object is there is cheaper than sending it again."""

_CHUNK_BYTES = 1 << 20
_MOST_DELETED = 1000
_NUM_WITNESSES = 4


class S3Objects:
    """The verbs of a store for single objects. Keys are relative to `prefix`."""

    def __init__(self, connection: S3Connection, *, prefix: str) -> None:
        self._connection = connection
        self._bucket = connection.bucket
        self._prefix = prefix

    def head(self, key: str) -> Any:
        """An object's size, metadata and time. Raises ArtifactMissing."""
        try:
            return self._connection.call(
                f"look at {key}", lambda s3: s3.head_object(Bucket=self._bucket, Key=self._prefix + key)
            )
        except ObjectMissing as error:
            raise ArtifactMissing(f"{key}: not in {self._connection.place}") from error

    def read(self, key: str) -> bytes | None:
        """An object's bytes, or None when there is none."""

        def attempt(s3: Any) -> bytes:
            content: bytes = s3.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read()
            return content

        try:
            return self._connection.call(f"read {key}", attempt)
        except ObjectMissing:
            return None
        except StoreUnavailable as error:
            self._blame(key, error)
            raise

    def create(self, key: str, content: bytes) -> bool:
        """Write a record unless it exists: a PUT with `If-None-Match: *`.

        When an answer is lost, the second attempt finds the first one's record. A random token in the object's metadata
        tells it from a rival's, even from one of equal bytes.
        """
        token = secrets.token_hex(8)
        try:
            self._put(
                key,
                content,
                hashlib.sha256(content).hexdigest(),
                doing="create",
                about={"writer": token},
                IfNoneMatch="*",
            )
        except ObjectExists as lost:
            return lost.repeated and self.head(key)["Metadata"].get("writer") == token
        return True

    def _upload(self, key: str, source: bytes | Path, sha256: str, num_bytes: int) -> None:
        """Make `key` hold these bytes, unless a young object of this size and digest is there already."""
        if num_bytes >= _HEAD_PAYS_BYTES and self._is_there(key, sha256, num_bytes):
            return
        if isinstance(source, bytes) or num_bytes <= PART_BYTES:
            content = source if isinstance(source, bytes) else _file_content(source, sha256)
            self._put(key, content, sha256, doing="upload", about={"sha256": sha256})
        else:
            self._upload_in_parts(key, source, sha256)

    def _download(self, key: str, target: Path) -> tuple[Path, tuple[str, int]]:
        def attempt(s3: Any) -> tuple[Path, tuple[str, int]]:
            body = s3.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"]
            with store_errors(target, use="filled"):
                return write_part(target, body.iter_chunks(_CHUNK_BYTES), sync=False)

        try:
            return self._connection.call(f"download {key}", attempt)
        except ObjectMissing as error:
            raise ArtifactMissing(f"{key}: not in {self._connection.place}") from error
        except StoreUnavailable as error:
            self._blame(key, error)
            raise

    def scan(self, prefix: str) -> Iterator[StoredObject]:
        """The objects under `prefix` in lexical order, with their sizes and ages."""
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
        """Remove an object, if it is there."""
        self._connection.call(f"delete {key}", lambda s3: s3.delete_object(Bucket=self._bucket, Key=self._prefix + key))

    def delete_all(self, keys: Sequence[str]) -> None:
        """Remove objects, as many in one request as S3 takes."""
        batches = [keys[first : first + _MOST_DELETED] for first in range(0, len(keys), _MOST_DELETED)]
        for batch in batches:
            wanted = {"Objects": [{"Key": self._prefix + key} for key in batch], "Quiet": True}
            answer = self._page("delete_objects", {"Bucket": self._bucket, "Delete": wanted})
            # What the batch did not take says why when it is asked for alone.
            for failed in answer.get("Errors", []):
                self.delete(failed["Key"].removeprefix(self._prefix))

    def discard_unfinished(self, *, older_than_seconds: float, dry_run: bool) -> int:
        """Abort the multipart uploads of writers that died; returns how many there were."""
        stale = [
            found
            for page in self._pages("list_multipart_uploads", {"Prefix": self._prefix}, ("KeyMarker", "UploadIdMarker"))
            for found in page.get("Uploads", [])
            if _age_seconds(page, found["Initiated"]) >= older_than_seconds
        ]
        for found in [] if dry_run else stale:
            arguments = {"Bucket": self._bucket, "Key": found["Key"], "UploadId": found["UploadId"]}
            with suppress(ObjectMissing):
                self._page("abort_multipart_upload", arguments)
        return len(stale)

    def _blame(self, key: str, error: StoreUnavailable) -> None:
        """Raise ArtifactCorrupt when the server fails at this object and gives others: it found the stored bytes damaged."""
        if answered_status(error.__cause__) != HTTPStatus.INTERNAL_SERVER_ERROR:
            return
        page = self._once(
            lambda s3: s3.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=_NUM_WITNESSES)
        )
        others = [found["Key"] for found in (page or {}).get("Contents", []) if found["Key"] != self._prefix + key]
        if any(self._gives(name) for name in others) and not self._gives(self._prefix + key):
            raise ArtifactCorrupt(
                f"{key}: {self._connection.place} gives other objects and not this one, so it is damaged there ({error})"
            ) from error

    def _gives(self, name: str) -> bool:
        def first_byte(s3: Any) -> bool:
            body = s3.get_object(Bucket=self._bucket, Key=name)["Body"]
            try:
                body.read(1)
            finally:
                body.close()
            return True

        return bool(self._once(first_byte))

    def _once(self, attempt: Callable[[Any], Any]) -> Any:
        """What one attempt gives, None when it fails."""
        try:
            return self._connection.call("look around", attempt, retry_seconds=0)
        except (StoreUnavailable, StoreRefused, ObjectMissing):
            return None

    def _pages(self, operation: str, arguments: dict[str, str], markers: tuple[str, ...]) -> Iterator[Any]:
        """All pages of a listing; each of `markers` takes its `Next…` from the page before."""
        page: dict[str, Any] = {"IsTruncated": True}
        while page.get("IsTruncated"):
            resume = {marker: page[f"Next{marker}"] for marker in markers if f"Next{marker}" in page}
            page = self._page(operation, {"Bucket": self._bucket, **arguments, **resume})
            yield page

    def _page(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self._connection.call(operation, lambda s3: getattr(s3, operation)(**arguments))

    def _is_there(self, key: str, sha256: str, num_bytes: int) -> bool:
        try:
            answer = self.head(key)
        except ArtifactMissing:
            return False
        is_same = answer["ContentLength"] == num_bytes and answer["Metadata"].get("sha256") == sha256
        return is_same and _age_seconds(answer, answer["LastModified"]) < layout.REUSE_SECONDS

    def _put(
        self, key: str, content: bytes, sha256: str, *, doing: str, about: dict[str, str], **condition: str
    ) -> None:
        """One PUT that the server refuses when the bytes it received have another SHA-256."""
        self._connection.call(
            f"{doing} {key}",
            lambda s3: s3.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=content,
                ChecksumSHA256=base64.b64encode(bytes.fromhex(sha256)).decode(),
                Metadata=about,
                **condition,
            ),
        )

    def _upload_in_parts(self, key: str, path: Path, sha256: str) -> None:
        def attempt(s3: Any) -> None:
            with path.open("rb") as file:
                self._connection.upload(s3, self._prefix + key, file, {"sha256": sha256})

        self._connection.call(f"upload {key}", attempt)


def _file_content(path: Path, sha256: str) -> bytes:
    with store_errors(path):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ArtifactCorrupt(f"{path} changed while it was being stored")
    return content


def _age_seconds(answer: Any, written_at: datetime) -> float:
    """By the `Date` of the server's answer, so that a wrong clock here does not count."""
    now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    return max(0.0, (now - written_at).total_seconds())
