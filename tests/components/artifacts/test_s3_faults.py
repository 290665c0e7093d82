"""The S3 store with faults of the server, the network, the credentials or the data."""

import hashlib
import os
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from components.artifacts.layout import payload_ref
from components.artifacts.s3 import S3ArtifactStore
from components.errors import ArtifactCorrupt, StoreGone, StoreRefused, StoreUnavailable
from components.machine.outages import interrupt, interruptible
from tests.components.artifacts.conftest import CREDENTIALS
from tests.components.artifacts.faulty_proxy import FaultyProxy, faulty_proxy
from tests.components.artifacts.weed_server import BUCKET, SECRET_KEY, WeedServer

CONTENT = bytes(range(256)) * 4000


@pytest.mark.parametrize("fault", ["answer_503", "refuse", "lose_answer"])
def test_a_write_outlasts_a_fault(proxied_store: S3ArtifactStore, proxy: FaultyProxy, fault: str) -> None:
    proxy.fail_first(fault, method="PUT", times=3)
    ref = proxied_store.put_bytes(CONTENT, kind="bytes")
    assert sum(method == "PUT" for method, _ in proxy.requests) == 4
    assert proxied_store.get_bytes(ref) == CONTENT


@pytest.mark.parametrize("fault", ["answer_503", "refuse", "cut_body"])
def test_a_read_outlasts_a_fault(proxied_store: S3ArtifactStore, proxy: FaultyProxy, fault: str) -> None:
    ref = proxied_store.put_bytes(CONTENT, kind="bytes")
    proxy.fail_first(fault, method="GET", times=3)
    assert proxied_store.get_bytes(ref) == CONTENT
    assert sum(method == "GET" for method, _ in proxy.requests) == 4


def test_a_folder_outlasts_cut_bodies(proxied_store: S3ArtifactStore, proxy: FaultyProxy, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for name in "abc":
        (tmp_path / "source" / name).write_bytes(name.encode() * 300_000)
    ref = proxied_store.put_folder(tmp_path / "source")
    proxy.fail_first("cut_body", method="GET", times=3)
    proxied_store.get_folder(ref, tmp_path / "into")
    assert {path.name: path.read_bytes() for path in (tmp_path / "into").iterdir()} == {
        name: name.encode() * 300_000 for name in "abc"
    }


@pytest.mark.parametrize("fault", ["answer_503", "refuse", "cut_body"])
def test_patience_ends_with_an_error_that_may_be_retried(proxy: FaultyProxy, credentials: None, fault: str) -> None:
    store = S3ArtifactStore(BUCKET, prefix="away", endpoint_url=proxy.endpoint_url, retry_seconds=0.5)
    ref = store.put_bytes(CONTENT, kind="bytes")
    proxy.fault = lambda method, path: fault
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"read .*, for 0\.5 s"):
        store.get_bytes(ref)
    assert time.monotonic() - started < 2


def test_calls_side_by_side_share_one_patience(proxy: FaultyProxy, credentials: None) -> None:
    store = S3ArtifactStore(BUCKET, prefix="away", endpoint_url=proxy.endpoint_url, retry_seconds=2.0)
    proxy.fault = lambda method, path: "refuse"
    started = time.monotonic()
    with pytest.raises(StoreGone, match=r"store\.patience_seconds"):
        store.read("first")
    half = time.monotonic()
    with pytest.raises(StoreGone):
        store.read("next")
    assert half - started > 1.0
    assert time.monotonic() - half < half - started, "the outage is known: one attempt"
    proxy.fault = lambda method, path: None
    assert store.read("nothing") is None


def test_an_interruption_ends_a_call_that_waits(proxy: FaultyProxy, credentials: None) -> None:
    store = S3ArtifactStore(BUCKET, prefix="away", endpoint_url=proxy.endpoint_url, retry_seconds=600)
    proxy.fault = lambda method, path: "refuse"
    with interruptible():
        threading.Timer(0.5, interrupt).start()
        with pytest.raises(StoreUnavailable, match="the run was interrupted") as raised:
            store.read("x")
    assert not isinstance(raised.value, StoreGone)
    with interruptible():
        pass


def test_a_record_whose_answer_was_lost_is_known_as_ours(proxied_store: S3ArtifactStore, proxy: FaultyProxy) -> None:
    proxy.fail_first("lose_answer", method="PUT")
    assert proxied_store.create("runs/r/x.json", b"same bytes") is True
    assert proxied_store.create("runs/r/x.json", b"same bytes") is False


def test_a_conflict_with_an_unfinished_rival_is_not_yet_a_loss(
    proxied_store: S3ArtifactStore, proxy: FaultyProxy
) -> None:
    proxy.fail_first("answer_409", method="PUT")
    assert proxied_store.create("runs/r/x.json", b"mine") is True
    assert proxied_store.read("runs/r/x.json") == b"mine"


def test_a_rivals_record_of_equal_bytes_is_not_ours_when_an_answer_is_lost(
    proxied_store: S3ArtifactStore, proxy: FaultyProxy, s3_store: S3ArtifactStore, weed: WeedServer
) -> None:
    rival = S3ArtifactStore(BUCKET, prefix=proxied_store.uri.rpartition("/")[2], endpoint_url=weed.endpoint_url)
    first = [True]

    def rival_writes_first(method: str, path: str) -> str | None:
        if method == "PUT" and first:
            first.clear()
            assert rival.create("runs/r/x.json", b"same bytes")
            return "lose_answer"
        return None

    proxy.fault = rival_writes_first
    assert proxied_store.create("runs/r/x.json", b"same bytes") is False


def test_a_server_that_ignores_conditions_is_refused(double: str) -> None:
    S3ArtifactStore("sound", endpoint_url=double).ensure_bucket()
    S3ArtifactStore("sound", endpoint_url=double).probe()
    with faulty_proxy(int(double.rpartition(":")[2])) as proxy:
        proxy.fault = lambda method, path: "ignore_condition"
        store = S3ArtifactStore("sound", endpoint_url=proxy.endpoint_url)
        with pytest.raises(StoreRefused, match="ignores If-None-Match"):
            store.probe()
        assert list(store.list("")) == []


def test_a_large_payload_that_is_there_is_not_sent_again(proxied_store: S3ArtifactStore, proxy: FaultyProxy) -> None:
    large = CONTENT * 17
    ref = proxied_store.put_bytes(large, kind="bytes")
    proxy.requests.clear()
    assert proxied_store.put_bytes(large, kind="bytes") == ref
    assert [method for method, _ in proxy.requests] == ["HEAD"]


def test_a_client_makes_one_request_a_verb(proxied_store: S3ArtifactStore, proxy: FaultyProxy) -> None:
    assert proxy.requests == []
    proxied_store.create("runs/r/x.json", b"x")
    proxied_store.read("runs/r/x.json")
    proxied_store.put_bytes(b"x", kind="bytes")
    assert [method for method, _ in proxy.requests] == ["PUT", "GET", "PUT"]


def test_a_large_file_goes_up_in_checked_parts(s3_store: S3ArtifactStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    content = os.urandom(20 << 20)
    (source / "weights.bin").write_bytes(content)
    ref = s3_store.put_folder(source)
    assert s3_store.discard_unfinished(older_than_seconds=0, dry_run=True) == 0
    s3_store.get_folder(ref, tmp_path / "into")
    assert hashlib.sha256((tmp_path / "into" / "weights.bin").read_bytes()).digest() == hashlib.sha256(content).digest()


def test_open_uploads_of_dead_writers_are_aborted(
    s3_store: S3ArtifactStore, weed: WeedServer, credentials: None
) -> None:
    client = boto3.client("s3", endpoint_url=weed.endpoint_url, region_name="us-east-1")
    prefix = s3_store.uri.removeprefix(f"s3://{BUCKET}/")
    upload = client.create_multipart_upload(Bucket=BUCKET, Key=f"{prefix}/folders/x/weights.bin")
    client.upload_part(
        Bucket=BUCKET, Key=f"{prefix}/folders/x/weights.bin", UploadId=upload["UploadId"], PartNumber=1, Body=b"torn"
    )
    assert s3_store.discard_unfinished(older_than_seconds=3600, dry_run=False) == 0
    assert s3_store.discard_unfinished(older_than_seconds=0, dry_run=True) == 1
    assert s3_store.discard_unfinished(older_than_seconds=0, dry_run=False) == 1
    assert s3_store.discard_unfinished(older_than_seconds=0, dry_run=False) == 0
    client.close()


def test_a_file_that_changes_while_it_is_stored_is_refused(
    s3_store: S3ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from components.artifacts import layout

    (tmp_path / "weights.bin").write_bytes(b"before")
    listing = layout.list_folder(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"after!")
    monkeypatch.setattr(layout, "list_folder", lambda folder: listing)
    with pytest.raises(ArtifactCorrupt, match="changed while"):
        s3_store.put_folder(tmp_path)


@pytest.fixture
def refused(weed: WeedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Calls a store with the given environment and returns the text of its error, including causes."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    def call(**environment: str) -> str:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        store = S3ArtifactStore(BUCKET, endpoint_url=weed.endpoint_url, retry_seconds=5)
        with pytest.raises(StoreRefused) as caught:
            store.create("runs/r/x.json", b"x")
        assert "\n" not in str(caught.value)
        return str(caught.value) + "".join(traceback.format_exception(caught.value)) + repr(store)

    return call


def test_missing_credentials_are_refused_with_the_remedy(refused: Callable[..., str]) -> None:
    assert "no AWS credentials found: set AWS_ACCESS_KEY_ID" in refused()


def test_wrong_credentials_are_refused_and_not_told(refused: Callable[..., str]) -> None:
    told = refused(AWS_ACCESS_KEY_ID=CREDENTIALS["AWS_ACCESS_KEY_ID"], AWS_SECRET_ACCESS_KEY="notthesecretofthisserver")
    assert "does not accept the credentials" in told
    assert "notthesecret" not in told
    told = refused(AWS_ACCESS_KEY_ID="nobodyknowsthiskey", AWS_SECRET_ACCESS_KEY=SECRET_KEY)
    assert "does not accept the credentials" in told
    assert SECRET_KEY not in told
    assert "nobodyknowsthiskey" not in told


def test_a_missing_bucket_is_refused_and_can_be_made(double: str) -> None:
    store = S3ArtifactStore("made-on-demand", endpoint_url=double, retry_seconds=5)
    for verb in (store.probe, lambda: store.read("x"), lambda: list(store.list(""))):
        with pytest.raises(StoreRefused, match="the bucket does not exist: create it"):
            verb()
    store.ensure_bucket()
    store.ensure_bucket()
    store.probe()


def test_a_malformed_address_is_refused(credentials: None) -> None:
    store = S3ArtifactStore(BUCKET, endpoint_url="127.0.0.1:9000")
    with pytest.raises(StoreRefused, match="write http://host:port"):
        store.read("x")


def test_nothing_listening_is_unavailable(credentials: None) -> None:
    store = S3ArtifactStore(BUCKET, endpoint_url="http://127.0.0.1:9", retry_seconds=0.2)
    with pytest.raises(StoreUnavailable, match="EndpointConnectionError"):
        store.probe()


def test_a_local_disk_error_is_not_taken_for_the_servers(s3_store: S3ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"x")
    ref = s3_store.put_folder(tmp_path / "source")
    (tmp_path / "file").write_bytes(b"in the way")
    with pytest.raises(StoreRefused, match="cannot be written"):
        s3_store.get_folder(ref, tmp_path / "file" / "into")


@pytest.mark.slow
def test_a_server_killed_in_the_middle_of_an_upload_is_outlasted(tmp_path: Path, credentials: None) -> None:
    """The server is killed during an upload in parts and restarted some seconds later: the same call succeeds."""
    server = WeedServer(tmp_path / "weed")
    server.spawn()
    try:
        server.wait_ready()
        with faulty_proxy(server.port) as proxy:
            store = S3ArtifactStore(BUCKET, prefix="p", endpoint_url=proxy.endpoint_url)
            kept = store.put_bytes(CONTENT, kind="bytes")
            source = tmp_path / "source"
            source.mkdir()
            (source / "weights.bin").write_bytes(os.urandom(64 << 20))
            (source / "config.json").write_bytes(b"{}")
            killed = threading.Event()

            def kill_on_second_part(method: str, path: str) -> None:
                if "partNumber=2" in path and not killed.is_set():
                    killed.set()
                    server.kill()
                    threading.Timer(8, server.spawn).start()

            proxy.fault = kill_on_second_part
            ref = store.put_folder(source)
            assert killed.is_set()
            store.get_folder(ref, tmp_path / "into")
            assert (tmp_path / "into" / "weights.bin").read_bytes() == (source / "weights.bin").read_bytes()
            assert store.get_bytes(kept) == CONTENT
    finally:
        server.kill()


def test_a_reference_does_not_depend_on_the_store(s3_store: S3ArtifactStore) -> None:
    assert s3_store.put_bytes(CONTENT, kind="bytes") == payload_ref(CONTENT, kind="bytes")
