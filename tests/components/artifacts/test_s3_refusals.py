"""Why a store refuses: said also where the first answer, to a HEAD, has no body."""

import http.server
import re
import threading
from collections.abc import Iterator
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from components.artifacts.s3 import S3ArtifactStore
from components.artifacts.s3_errors import verdict_on
from components.config import StoreConfig
from components.errors import StoreRefused
from components.session.stores import open_store

CAUSES = (
    (403, "RequestTimeTooSkewed", "", "clock"),
    (403, "RequestExpired", "", "clock"),
    (
        400,
        "AuthorizationHeaderMalformed",
        "the region is wrong; expecting 'garage'",
        "set store.region to garage, or AWS_REGION",
    ),
    (
        400,
        "AuthorizationHeaderMalformed",
        "unexpected scope (expected: 20261128/eu-1/s3/aws4_request)",
        "region to eu-1,",
    ),
    (301, "PermanentRedirect", "", "the region is wrong"),
    (400, "IllegalLocationConstraintException", "", "set store.region, or AWS_REGION"),
    (400, "ExpiredToken", "", "the session token has expired"),
    (403, "TokenRefreshRequired", "", "the session token has expired"),
    (403, "SecondLevelDomainForbidden", "", "set store.addressing to virtual"),
    (403, "PathStyleDomainForbidden", "", "set store.addressing to virtual"),
    (403, "VirtualHostDomainRequired", "", "set store.addressing to virtual"),
    (403, "InvalidAccessKeyId", "", "does not accept the credentials"),
    (403, "AccessDenied", "", "access denied"),
    (404, "NoSuchBucket", "", "the bucket does not exist"),
    (400, "Strange", "", "the server answered 400 Strange$"),
    (400, "400", "", "the server answered 400$"),
)


@pytest.mark.parametrize(("status", "code", "message", "told"), CAUSES)
def test_a_refusal_names_its_cause(status: int, code: str, message: str, told: str) -> None:
    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    verdict = verdict_on(ClientError(answer, "GetObject"))
    assert verdict.meaning == "refused"
    assert re.search(told, verdict.line), verdict.line
    answer["ResponseMetadata"]["HTTPHeaders"] = {"date": formatdate(0, usegmt=True)}
    is_named = any(word in told for word in ("region", "token", "virtual", "bucket"))
    is_clock = "clock" in verdict_on(ClientError(answer, "GetObject")).line
    assert is_clock is not is_named, "the server's own time tells of a clock that is off"


@pytest.fixture
def refusing() -> Iterator[Any]:
    """A server that refuses all with the `code` and `status` that are set, without a body in answer to a HEAD; `seen` are hosts
    and paths."""
    about = SimpleNamespace(status=403, code="", seen=[])

    class Store(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            about.seen.append((self.headers["Host"].partition(":")[0], self.path, self.headers["Authorization"]))
            text = b"" if self.command == "HEAD" else f"<Error><Code>{about.code}</Code></Error>".encode()
            self.send_response(about.status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_HEAD = answer

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        about.url = f"http://127.0.0.1:{server.server_port}"
        yield about
        server.shutdown()


def test_the_body_of_a_list_tells_what_a_head_does_not(refusing: Any, credentials: None) -> None:
    for number, (status, code, told) in enumerate(
        ((403, "RequestTimeTooSkewed", "clock"), (400, "ExpiredToken", "session token has expired"))
    ):
        refusing.status, refusing.code = status, code
        store = S3ArtifactStore("troupe", endpoint_url=refusing.url, retry_seconds=5)
        with pytest.raises(StoreRefused, match=rf"look for the bucket, s3://troupe at {refusing.url}: .*{told}"):
            store.probe()
        assert [path.partition("?")[0] for _, path, _ in refusing.seen[2 * number :]] == ["/troupe", "/troupe"]


def test_region_and_addressing_are_the_configurations_and_the_server_is_named(
    refusing: Any, credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", refusing.url)
    for settings, region in (({}, "eu-north-1"), ({"region": "garage"}, "garage")):
        with pytest.raises(StoreRefused, match=f"at {refusing.url}"):
            open_store(StoreConfig(patience_seconds=5, **settings)).check()
        assert f"/{region}/s3/" in refusing.seen[-1][2]
    with pytest.raises(StoreRefused, match=f"at {refusing.url}"):
        S3ArtifactStore("troupe", retry_seconds=5).check()
    virtual = open_store(StoreConfig(addressing="virtual", endpoint_url="http://localhost:9"))
    assert isinstance(virtual, S3ArtifactStore)
    client = virtual._connection._connect()
    assert client.generate_presigned_url("head_bucket", {"Bucket": "troupe"}).startswith("http://troupe.localhost:9/")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    assert S3ArtifactStore("troupe")._connection.place == "s3://troupe at AWS"
