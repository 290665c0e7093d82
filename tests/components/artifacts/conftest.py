"""Stores to test against: a fresh directory, and a fresh prefix of one real S3 server for the whole session."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.artifacts.s3 import S3ArtifactStore
from components.artifacts.write_behind import WriteBehindStore
from tests.components.artifacts.faulty_proxy import FaultyProxy, faulty_proxy
from tests.components.artifacts.weed_server import ACCESS_KEY, BUCKET, SECRET_KEY, WeedServer

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test server's credentials in the environment, which the AWS chain reads first."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WeedServer]:
    """A running SeaweedFS."""
    server = WeedServer(tmp_path_factory.mktemp("weed"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        server.spawn()
        try:
            server.wait_ready()
            yield server
        finally:
            server.kill()


@pytest.fixture
def proxy(weed: WeedServer) -> Iterator[FaultyProxy]:
    """A proxy in front of the server, without faults unless a test adds them."""
    with faulty_proxy(weed.port) as running:
        yield running


@pytest.fixture
def double(credentials: None) -> Iterator[str]:
    """The address of a test double for behaviour that SeaweedFS lacks: it reports missing buckets and checks no signatures."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def s3_store(weed: WeedServer, credentials: None) -> S3ArtifactStore:
    """A store of its own on the real server."""
    return S3ArtifactStore(BUCKET, prefix=f"t-{secrets.token_hex(6)}", endpoint_url=weed.endpoint_url, retry_seconds=5)


@pytest.fixture
def proxied_store(proxy: FaultyProxy, credentials: None) -> S3ArtifactStore:
    """A store of its own behind the proxy."""
    return S3ArtifactStore(BUCKET, prefix=f"t-{secrets.token_hex(6)}", endpoint_url=proxy.endpoint_url, retry_seconds=5)


def store_of_kind(kind: str, request: pytest.FixtureRequest, root: Path) -> ArtifactStore:
    if kind == "s3":
        found: S3ArtifactStore = request.getfixturevalue("s3_store")
        return found
    local = LocalArtifactStore(root)
    return WriteBehindStore(local) if kind == "behind" else local


@pytest.fixture(params=["local", "s3"])
def plain_store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    """Each kind of store, for tests that must hold for all."""
    return store_of_kind(request.param, request, tmp_path / "store")


@pytest.fixture(params=["local", "s3", "behind"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    """The same, and one that is written behind."""
    return store_of_kind(request.param, request, tmp_path / "store")


@pytest.fixture
def overwrite(request: pytest.FixtureRequest, store: ArtifactStore, tmp_path: Path) -> Callable[[str, bytes], None]:
    """Replace the content of a key without the store, like a fault or an attacker."""
    if isinstance(store.durable, LocalArtifactStore):

        def write(key: str, content: bytes) -> None:
            store.flush()
            (tmp_path / "store" / key).write_bytes(content)

        return write
    import boto3

    weed: WeedServer = request.getfixturevalue("weed")
    client = boto3.client("s3", endpoint_url=weed.endpoint_url, region_name="us-east-1")
    prefix = store.uri.removeprefix(f"s3://{BUCKET}/")
    return lambda key, content: client.put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=content)
