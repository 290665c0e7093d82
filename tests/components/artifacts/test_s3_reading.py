"""Reading from S3 creates nothing, and distinguishes a damaged object from a server that is away."""

import secrets
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.s3 import S3ArtifactStore
from components.artifacts.write_behind import WriteBehindStore
from components.errors import ArtifactCorrupt, StoreRefused, StoreUnavailable
from tests.components.artifacts.faulty_proxy import Fault, FaultyProxy
from tests.components.artifacts.weed_server import BUCKET, WeedServer


def test_a_missing_bucket_is_one_clear_line_and_is_not_made(weed: WeedServer, credentials: None) -> None:
    client = boto3.client("s3", endpoint_url=weed.endpoint_url, region_name="us-east-1")
    store = S3ArtifactStore("nosuchbucket", endpoint_url=weed.endpoint_url, retry_seconds=5)
    with pytest.raises(
        StoreRefused, match=rf"^no such bucket: s3://nosuchbucket at {weed.endpoint_url}; name another one"
    ):
        store.check()
    with pytest.raises(StoreRefused, match="the bucket does not exist: create it"):
        store.probe()
    for read in (lambda: store.read("x"), lambda: list(store.list(""))):
        with pytest.raises(StoreRefused, match="the bucket does not exist"):
            read()
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == [BUCKET]


def test_looking_at_a_store_costs_one_request_that_writes_nothing(
    proxied_store: S3ArtifactStore, proxy: FaultyProxy
) -> None:
    proxied_store.check()
    assert [method for method, _ in proxy.requests] == ["HEAD"]


def test_an_object_that_the_server_cannot_give_is_damaged(
    proxy: FaultyProxy, credentials: None, tmp_path: Path
) -> None:
    store = S3ArtifactStore(
        BUCKET, prefix=f"t-{secrets.token_hex(6)}", endpoint_url=proxy.endpoint_url, retry_seconds=0.5
    )
    flipped, sound = store.put_bytes(b"flipped", kind="bytes"), store.put_bytes(b"sound", kind="bytes")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "weights.bin").write_bytes(b"w")
    folder = store.put_folder(tmp_path / "source")

    def fault(method: str, path: str) -> Fault:
        return "answer_500" if method == "GET" and (flipped.key in path or "weights.bin" in path) else None

    proxy.fault = fault
    with pytest.raises(
        ArtifactCorrupt, match=rf"^{flipped.key}: .* returns other objects and not this one, so it is damaged"
    ):
        store.get_bytes(flipped)
    with pytest.raises(ArtifactCorrupt, match=r"weights\.bin: .* is damaged there"):
        store.get_folder(folder, tmp_path / "into")
    assert store.get_bytes(sound) == b"sound"


@pytest.mark.parametrize("fault", ["answer_500", "answer_503", "refuse"])
def test_a_server_that_gives_nothing_is_away(proxy: FaultyProxy, credentials: None, fault: Fault) -> None:
    store = S3ArtifactStore(
        BUCKET, prefix=f"t-{secrets.token_hex(6)}", endpoint_url=proxy.endpoint_url, retry_seconds=0.5
    )
    ref = store.put_bytes(b"one", kind="bytes")
    store.put_bytes(b"another", kind="bytes")
    proxy.fault = lambda method, path: fault if method == "GET" and "list-type" not in path else None
    with pytest.raises(StoreUnavailable):
        store.get_bytes(ref)


def test_a_flipped_bit_on_the_servers_disk_is_named(weed: WeedServer, credentials: None) -> None:
    store = S3ArtifactStore(
        BUCKET, prefix=f"t-{secrets.token_hex(6)}", endpoint_url=weed.endpoint_url, retry_seconds=0.5
    )
    content = secrets.token_bytes(5000)
    ref, other = store.put_bytes(content, kind="bytes"), store.put_bytes(b"sound", kind="bytes")
    weed.flip_a_bit_of(content)
    with pytest.raises(ArtifactCorrupt, match=ref.key):
        store.get_bytes(ref)
    assert store.get_bytes(other) == b"sound"


def test_many_keys_are_deleted_whether_there_or_not(s3_store: S3ArtifactStore) -> None:
    keys = [s3_store.put_bytes(f"{number}".encode(), kind="bytes").key for number in range(5)]
    s3_store.delete_all([*keys[:3], "runs/r/absent.json"])
    assert list(s3_store.list("")) == sorted(keys[3:])
    s3_store.delete_all([])


def test_a_signed_folder_is_read_without_credentials(s3_store: S3ArtifactStore, tmp_path: Path) -> None:
    """What is written behind is waited for; a folder on a disk has no addresses."""
    (tmp_path / "made" / "model" / "deep").mkdir(parents=True)
    (tmp_path / "made" / "model" / "deep" / "a").write_text("one two")
    (tmp_path / "made" / "optimizer").write_text("not asked for")
    behind = WriteBehindStore(s3_store)
    ref = behind.put_folder(tmp_path / "made")
    (file,) = behind.sign_folder(ref, under="model/", seconds=60)
    assert (file.path, file.num_bytes) == ("deep/a", 7)
    assert urllib.request.urlopen(file.url, timeout=10).read() == b"one two"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(file.url.replace("Signature=", "Signature=0"), timeout=10)
    behind.close()
    local = LocalArtifactStore(tmp_path / "store")
    assert local.sign_folder(local.put_folder(tmp_path / "made"), under="", seconds=60) == ()
