"""The artifact store over S3: digests on everything that moves, `If-None-Match: *` on everything that commits."""

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef
from components.artifacts.s3_connection import S3Connection
from components.artifacts.s3_objects import S3Objects
from components.errors import StoreRefused

_PROBE_PATIENCE_SECONDS = 10.0


class S3ArtifactStore(S3Objects, ArtifactStore):
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
        connection = S3Connection(bucket, endpoint_url=endpoint_url, region=region, retry_seconds=retry_seconds)
        super().__init__(connection, prefix=f"{prefix.strip('/')}/" if prefix.strip("/") else "")

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
        store = self._hastily()
        if not store._connection.has_bucket():  # some servers would make it on the first write
            raise StoreRefused(
                f"{store._connection.place}: the bucket does not exist: create it, or name another one in store.bucket"
            )
        store._prove(
            place=store._connection.place,
            otherwise="ignores If-None-Match, so two writers could both commit: use a server that honours it (AWS S3, "
            "SeaweedFS 4.48 or newer)",
        )

    def folder_uri(self, ref: ArtifactRef) -> str:
        """Where other programs find the folder."""
        return f"s3://{self._connection.bucket}/{self._prefix}{ref.key}"

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
