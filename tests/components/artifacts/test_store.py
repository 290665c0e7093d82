"""The contract of artifact stores, for a directory and a real S3 server."""

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing

CONTENT = b"sixteen bytes ok"


def a_folder(root: Path) -> Path:
    (root / "model").mkdir(parents=True)
    (root / "model" / "weights.bin").write_bytes(bytes(range(256)) * 20_000)
    (root / "config.json").write_text("{}")
    (root / "empty").write_bytes(b"")
    return root


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_bytes_come_back_and_have_one_place(store: ArtifactStore) -> None:
    first = store.put_bytes(CONTENT, kind="note")
    second = store.put_bytes(CONTENT, kind="note")
    assert first == second
    assert (first.kind, first.num_bytes) == ("note", 16)
    assert store.get_bytes(first) == CONTENT
    assert list(store.list("payloads/")) == [first.key]


def test_the_digest_of_an_object_is_of_the_bytes_that_lie_there(
    store: ArtifactStore, overwrite: Callable[[str, bytes], None], tmp_path: Path
) -> None:
    ref = store.put_folder(a_folder(tmp_path / "source"))
    listing = ref.files or {}
    assert {path: store.digest(f"{ref.key}/{path}") for path in listing} == listing
    overwrite(f"{ref.key}/empty", b"flipped")
    assert store.digest(f"{ref.key}/empty") == (hashlib.sha256(b"flipped").hexdigest(), 7)
    with pytest.raises(ArtifactMissing, match="absent"):
        store.digest(f"{ref.key}/absent")
    with pytest.raises(ArtifactMissing):
        store.digest(ref.key)


def test_empty_bytes_are_a_payload(store: ArtifactStore) -> None:
    assert store.get_bytes(store.put_bytes(b"", kind="note")) == b""


@pytest.mark.parametrize("damage", [CONTENT[:-1], b"Sixteen bytes ok", CONTENT + b"!", b""])
def test_damaged_bytes_are_never_returned(
    store: ArtifactStore, overwrite: Callable[[str, bytes], None], damage: bytes
) -> None:
    ref = store.put_bytes(CONTENT, kind="note")
    overwrite(ref.key, damage)
    with pytest.raises(ArtifactCorrupt, match=ref.key):
        store.get_bytes(ref)


def test_putting_again_repairs_a_damaged_payload(store: ArtifactStore, overwrite: Callable[[str, bytes], None]) -> None:
    ref = store.put_bytes(CONTENT, kind="note")
    overwrite(ref.key, b"Sixteen bytes ok")
    assert store.get_bytes(store.put_bytes(CONTENT, kind="note")) == CONTENT


def test_a_missing_payload_is_named(store: ArtifactStore) -> None:
    ref = store.put_bytes(CONTENT, kind="note")
    store.delete(ref.key)
    with pytest.raises(ArtifactMissing, match=ref.key):
        store.get_bytes(ref)


def test_a_folder_comes_back_exactly(store: ArtifactStore, tmp_path: Path) -> None:
    source = a_folder(tmp_path / "source")
    ref = store.put_folder(source)
    assert ref == store.put_folder(source)
    assert ref.num_bytes == 256 * 20_000 + 2
    into = tmp_path / "into"
    (into / "old").mkdir(parents=True)
    (into / "old" / "stale.bin").write_bytes(b"from another checkpoint")
    (into / "config.json").write_text("damaged")
    assert store.get_folder(ref, into) == into
    assert contents(into) == contents(source)
    assert not (into / "old").exists()


def test_a_part_of_a_folder_comes_alone(store: ArtifactStore, tmp_path: Path) -> None:
    ref = store.put_folder(a_folder(tmp_path / "source"))
    into = tmp_path / "into"
    (into / "model").mkdir(parents=True)
    (into / "model" / "stale.bin").write_bytes(b"from another checkpoint")
    assert contents(store.get_folder(ref, into, under="model/")) == {
        path: content for path, content in contents(tmp_path / "source").items() if path.startswith("model/")
    }
    assert contents(store.get_folder(ref, tmp_path / "none", under="nothing/")) == {}


def test_the_files_of_a_folder_lie_under_one_prefix(store: ArtifactStore, tmp_path: Path) -> None:
    ref = store.put_folder(a_folder(tmp_path / "source"))
    files = ["config.json", "empty", "model/weights.bin"]
    assert list(store.list(ref.key)) == [f"{ref.key}/{path}" for path in files]
    assert store.folder_uri(ref).startswith(store.uri)
    assert store.folder_uri(ref).endswith(ref.key)


def test_a_damaged_file_never_takes_its_name(
    store: ArtifactStore, overwrite: Callable[[str, bytes], None], tmp_path: Path
) -> None:
    ref = store.put_folder(a_folder(tmp_path / "source"))
    overwrite(f"{ref.key}/config.json", b"[]")
    with pytest.raises(ArtifactCorrupt, match=r"config\.json"):
        store.get_folder(ref, tmp_path / "into")
    assert not (tmp_path / "into" / "config.json").exists()
    assert not [path for path in (tmp_path / "into").rglob("*") if path.name.startswith(".part-")]


def test_a_missing_file_of_a_folder_is_named(store: ArtifactStore, tmp_path: Path) -> None:
    ref = store.put_folder(a_folder(tmp_path / "source"))
    store.delete(f"{ref.key}/empty")
    with pytest.raises(ArtifactMissing, match="empty"):
        store.get_folder(ref, tmp_path / "into")


@pytest.mark.parametrize("path", ["../escaped", "/escaped", "a/../../escaped"])
def test_a_listing_cannot_leave_its_folder(store: ArtifactStore, tmp_path: Path, path: str) -> None:
    from components.artifacts.layout import folder_ref

    ref = folder_ref({path: ("0" * 64, 1)})
    with pytest.raises(ArtifactCorrupt, match="outside"):
        store.get_folder(ref, tmp_path / "into")


def test_an_altered_listing_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    ref = store.put_folder(a_folder(tmp_path / "source"))
    assert ref.files is not None
    altered = ArtifactRef(**{**ref.model_dump(), "files": {"config.json": ref.files["config.json"]}})
    with pytest.raises(ArtifactCorrupt, match="listing"):
        store.get_folder(altered, tmp_path / "into")


def test_the_first_writer_of_a_record_wins(store: ArtifactStore) -> None:
    assert store.read("runs/r/config.json") is None
    assert store.create("runs/r/config.json", b"first") is True
    assert store.create("runs/r/config.json", b"second") is False
    assert store.create("runs/r/config.json", b"first") is False
    assert store.read("runs/r/config.json") == b"first"


def test_of_eight_writers_at_once_one_wins(store: ArtifactStore) -> None:
    for round_number in range(2):
        key, gate = f"runs/r/race-{round_number}.json", threading.Barrier(8)

        def write(writer: int, key: str = key, gate: threading.Barrier = gate) -> bool:
            gate.wait()
            return store.create(key, f"writer {writer}".encode())

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(write, range(8)))
        assert won.count(True) == 1
        assert store.read(key) == f"writer {won.index(True)}".encode()


def test_keys_are_listed_in_lexical_order_by_string_prefix(store: ArtifactStore) -> None:
    keys = ["runs/a/1.json", "runs/a-b/1.json", "runs/a/10.json", "runs/a/2.json", "runs/b.json", "other/x"]
    for key in keys:
        store.create(key, b"")
    assert list(store.list("")) == sorted(keys)
    assert list(store.list("runs/a")) == ["runs/a-b/1.json", "runs/a/1.json", "runs/a/10.json", "runs/a/2.json"]
    assert list(store.list("runs/a/1")) == ["runs/a/1.json", "runs/a/10.json"]
    assert list(store.list("absent/")) == []


def test_more_keys_than_one_page_are_all_listed(store: ArtifactStore) -> None:
    keys = [f"many/{number:05d}" for number in range(1005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put_bytes(key.encode(), kind="note"), keys))
    assert sum(1 for _ in store.list("payloads/")) == 1005


def test_a_scan_tells_sizes_and_ages(store: ArtifactStore) -> None:
    ref = store.put_bytes(CONTENT, kind="note")
    (found,) = store.scan("payloads/")
    assert (found.key, found.num_bytes) == (ref.key, 16)
    assert 0 <= found.age_seconds < 60


def test_deleting_twice_is_no_error(store: ArtifactStore) -> None:
    store.create("runs/r/x.json", b"x")
    store.delete("runs/r/x.json")
    store.delete("runs/r/x.json")
    assert store.read("runs/r/x.json") is None
    assert list(store.list("")) == []


def test_the_probe_accepts_a_sound_store_and_leaves_nothing(store: ArtifactStore) -> None:
    store.probe()
    assert list(store.list("")) == []
