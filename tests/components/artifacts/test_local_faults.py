"""The local store on a full or read-only disk, and what other processes see while a file is written."""

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from components.artifacts import local_files
from components.artifacts.local import LocalArtifactStore
from components.artifacts.local_files import store_errors
from components.errors import StoreRefused, StoreUnavailable

ROOT = Path(__file__).parents[3]
FULL_DISK = """
import resource, sys
from pathlib import Path
from components.artifacts.local import LocalArtifactStore
from components.errors import StoreRefused
root = Path(sys.argv[1])
store = LocalArtifactStore(root / "store")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
kept = store.put_bytes(b"small", kind="bytes")
for write in (
    lambda: store.put_bytes(b"x" * 100_000, kind="bytes"),
    lambda: store.create("runs/r/x.json", b"x" * 100_000),
    lambda: store.put_folder(root / "source"),
):
    try:
        write()
    except StoreRefused as error:
        print(error)
assert store.get_bytes(kept) == b"small"
"""


def visible(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_a_full_disk_is_refused_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "weights.bin").write_bytes(b"x" * 100_000)
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.count("no space left for") == 3
    assert "troupe gc" in done.stdout
    assert [path.rpartition("/")[0] for path in visible(tmp_path / "store")] == [
        f"payloads/{visible(tmp_path / 'store')[0].split('/')[1]}"
    ]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, StoreRefused),
        (errno.EDQUOT, StoreRefused),
        (errno.EACCES, StoreRefused),
        (errno.EROFS, StoreRefused),
        (errno.EIO, StoreUnavailable),
        (errno.ESTALE, StoreUnavailable),
    ],
)
def test_disk_errors_are_named(tmp_path: Path, number: int, expected: type[Exception]) -> None:
    with pytest.raises(expected, match=str(tmp_path)), store_errors(tmp_path):
        raise OSError(number, os.strerror(number))


def test_a_folder_that_is_filled_has_a_remedy_of_its_own(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreRefused, match=r"or choose another folder") as caught,
        store_errors(tmp_path, use="filled"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "gc" not in str(caught.value)


def test_a_disk_that_fills_while_syncing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = LocalArtifactStore(tmp_path / "store")
    monkeypatch.setattr(local_files.os, "fsync", full)
    with pytest.raises(StoreRefused, match="no space left"):
        store.create("runs/r/manifest.json", b"{}")
    monkeypatch.undo()
    assert visible(tmp_path) == []
    assert store.create("runs/r/manifest.json", b"{}") is True


def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"in the way")
    store = LocalArtifactStore(tmp_path / "file" / "store")
    with pytest.raises(StoreRefused, match="cannot be written"):
        store.probe()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_forbidden_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o500)
    with pytest.raises(StoreRefused, match="check its owner and mode"):
        LocalArtifactStore(tmp_path / "store").probe()


def test_a_half_written_file_is_not_listed_and_is_discarded_when_old(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    ref = store.put_bytes(b"whole", kind="bytes")
    part = tmp_path / "payloads" / "ab" / ".part-0011223344556677"
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(b"to")
    assert list(store.list("")) == [ref.key]
    assert store.discard_unfinished(older_than_seconds=60, dry_run=False) == 0
    os.utime(part, (time.time() - 120, time.time() - 120))
    assert store.discard_unfinished(older_than_seconds=60, dry_run=True) == 1
    assert part.exists()
    assert store.discard_unfinished(older_than_seconds=60, dry_run=False) == 1
    assert not part.exists()
    assert store.get_bytes(ref) == b"whole"


def test_a_payload_found_in_place_counts_as_written_now(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    ref = store.put_bytes(b"reused", kind="bytes")
    os.utime(tmp_path / ref.key, (time.time() - 7200, time.time() - 7200))
    assert next(store.scan(ref.key)).age_seconds > 7000
    store.put_bytes(b"reused", kind="bytes")
    assert next(store.scan(ref.key)).age_seconds < 60


def test_writers_and_deleters_of_one_directory_do_not_trip_each_other(tmp_path: Path) -> None:
    store, over = LocalArtifactStore(tmp_path), threading.Event()

    def delete() -> None:
        while not over.is_set():
            store.delete("runs/r/x.json")

    thread = threading.Thread(target=delete)
    thread.start()
    try:
        for _ in range(200):
            store.create("runs/r/x.json", b"x")
    finally:
        over.set()
        thread.join()


def test_a_folder_removed_while_mkdir_looks_at_what_is_there_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, made = LocalArtifactStore(tmp_path), []

    def mkdir(path: Path, *arguments: object, **more: object) -> None:
        made.append(path)
        if len(made) == 1:
            raise FileExistsError(errno.EEXIST, "File exists", str(path))
        os.makedirs(path, exist_ok=True)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert store.create("runs/r/x.json", b"x") is True
    assert made == [tmp_path / "runs" / "r"] * 2


@pytest.mark.parametrize("key", ["", "/absolute", "a//b", "../x", "a/./b"])
def test_a_key_that_is_no_key_is_a_broken_invariant(tmp_path: Path, key: str) -> None:
    with pytest.raises(AssertionError, match="not a store key"):
        LocalArtifactStore(tmp_path).create(key, b"")
