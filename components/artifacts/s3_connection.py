"""One bucket of one S3 server: a client made on first use, and calls that outlast an outage. Only this module imports boto3."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from components.artifacts.s3_errors import verdict_on
from components.errors import StoreGone, StoreRefused, StoreUnavailable
from components.machine.outages import Outage, is_interrupted

T = TypeVar("T")
Addressing = Literal["auto", "path", "virtual"]

PART_BYTES = 16 << 20
"""Larger files go up in parts of this size."""

_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 3.0


class ObjectMissing(Exception):
    """The key does not exist. Internal to the store."""


class ObjectExists(Exception):
    """A create-if-absent found the key taken. Internal to the store.

    `repeated`: an earlier attempt of the same call got no clear response, so the object may be its own.
    """

    def __init__(self, action: str, *, repeated: bool) -> None:
        super().__init__(action)
        self.repeated = repeated


class S3Connection:
    """A bucket and its client. Credentials come from the usual AWS chain; only boto3 holds them."""

    def __init__(
        self, bucket: str, *, endpoint_url: str | None, region: str | None, addressing: Addressing, retry_seconds: float
    ) -> None:
        self.bucket = bucket
        self.endpoint_url = endpoint_url
        self.region = region
        self.addressing: Addressing = addressing
        self._outage = Outage("S3", retry_seconds)
        self._client: Any = None
        self._lock = threading.Lock()

    @property
    def retry_seconds(self) -> float:
        """How long to wait for a server that does not answer."""
        return self._outage.patience_seconds

    @property
    def place(self) -> str:
        """Bucket and server, for messages. AWS's own settings may name another server, too."""
        server = self.endpoint_url or str(self._connect().meta.endpoint_url)
        is_aws = (urlsplit(server).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))
        return f"s3://{self.bucket} at {'AWS' if is_aws else server}"

    def call(self, action: str, attempt: Callable[[Any], T], *, retry_seconds: float | None = None) -> T:
        """`attempt(client)`, repeated while the server is away or overloaded.

        Retries for `retry_seconds` (None: the connection's own) from the first failure, so a long upload that fails at its
        end is retried; concurrent calls share the time. Raises ObjectMissing, ObjectExists, StoreRefused, StoreGone after that
        time, or StoreUnavailable if this process is interrupted meanwhile.
        """
        patience_seconds = self.retry_seconds if retry_seconds is None else retry_seconds
        since, delay_seconds = None, _FIRST_DELAY_SECONDS
        while True:
            try:
                result = attempt(self._connect())
            except self._complaints() as error:
                verdict = verdict_on(error)
                if verdict.meaning != "retry":
                    self._outage.record_success()
                what = f"{action}, {self.place}: {verdict.line}"
                if verdict.meaning == "missing":
                    raise ObjectMissing(action) from error
                if verdict.meaning == "exists":
                    raise ObjectExists(action, repeated=since is not None) from error
                if verdict.meaning == "refused":
                    raise StoreRefused(f"{action}, {self.place}: {self._reason(error) or verdict.line}") from error
                # If the server keeps answering other calls, this call's own time counts.
                failing_since = self._outage.record_failure()
                since = failing_since if since is None else min(since, failing_since)
                if not self._outage.backoff(delay_seconds, since=since, patience_seconds=patience_seconds):
                    if is_interrupted():
                        raise StoreUnavailable(f"{what}, and the run was interrupted") from error
                    raise StoreGone(
                        f"{what}, for {patience_seconds:g} s (at most store.patience_seconds); "
                        "once it answers, the same command continues from here"
                    ) from error
            else:
                self._outage.record_success()
                return result
            delay_seconds = min(2 * delay_seconds, _LONGEST_DELAY_SECONDS)

    def _reason(self, refusal: Exception) -> str | None:
        """Why a HEAD was refused, by the answer to a list of one object: the answer to a HEAD has no body that would say it.
        None for other requests, and if the list is not refused."""
        if not getattr(refusal, "operation_name", "").startswith("Head"):
            return None
        try:
            self._connect().list_objects_v2(Bucket=self.bucket, MaxKeys=1)
        except self._complaints() as error:
            verdict = verdict_on(error)
            return verdict.line if verdict.meaning == "refused" else None
        return None

    def has_bucket(self) -> bool:
        """Whether the bucket exists."""
        try:
            self.call("look for the bucket", lambda s3: s3.head_bucket(Bucket=self.bucket))
            return True
        except ObjectMissing:
            return False

    def create_bucket(self) -> None:
        """Create the bucket. Harmless if another process has just created it."""

        def attempt(s3: Any) -> None:
            region = s3.meta.region_name
            elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": region}} if region != "us-east-1" else {}
            with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
                s3.create_bucket(Bucket=self.bucket, **elsewhere)

        self.call("create the bucket", attempt)

    def upload(self, client: Any, key: str, file: Any, metadata: dict[str, str]) -> None:
        """Send an open file in parts with checksums; the object appears after the last part."""
        from boto3.s3.transfer import TransferConfig

        config = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=4)
        arguments = {"Metadata": metadata, "ChecksumAlgorithm": "SHA256"}
        client.upload_fileobj(file, self.bucket, key, ExtraArgs=arguments, Config=config)

    def _complaints(self) -> tuple[type[Exception], ...]:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError
        from urllib3.exceptions import HTTPError

        return (BotoCoreError, ClientError, ResponseParserError, HTTPError, ConnectionError)

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
            return self._client

    def _new_client(self) -> Any:
        import boto3
        from botocore.config import Config

        session = boto3.session.Session()
        config = Config(
            # Without it, boto3's own settings decide, and else it puts the bucket into the host's name at AWS alone.
            s3=None if self.addressing == "auto" else {"addressing_style": self.addressing},
            # `call` counts attempts: it has to know whether an earlier one got no response.
            retries={"mode": "standard", "total_max_attempts": 1},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            connect_timeout=3,
            read_timeout=30,
            max_pool_connections=16,
            tcp_keepalive=True,
        )
        try:
            return session.client(
                "s3",
                endpoint_url=self.endpoint_url,
                region_name=self.region or session.region_name or "us-east-1",
                config=config,
            )
        except ValueError as error:
            raise StoreRefused(f"store.endpoint_url {self.endpoint_url!r}: write http://host:port") from error
