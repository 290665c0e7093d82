"""Boxes see the same files, and the kernel sees files of each box's own."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.sandbox import box_root
from components.sandbox.box_root import DEVICES, BoxRoots
from tests.components.sandbox.threads import in_a_thread

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tree below a folder that only root may enter, with names that mean something to mount(2)."""
    root = tmp_path / "closed" / "a:b,c\\d"
    root.mkdir(parents=True)
    (root / "dev").mkdir()
    (root / "file").write_text("content")
    root.parent.chmod(0o700)
    return root


def test_a_lock_in_one_root_is_not_seen_in_another(folder: Path) -> None:
    before = mounts()
    roots = BoxRoots(folder)
    if not roots.own:
        pytest.skip("needs root and a kernel with overlays")

    def work() -> None:
        for name in ("file", *(f"dev/{device}" for device in DEVICES)):
            with roots.one() as first:
                held = (first.folder / name).open()
            with roots.one() as second:
                other = (second.folder / name).open()
            with held, other:
                assert os.fstat(held.fileno()).st_mode == os.fstat(other.fileno()).st_mode
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with roots.one() as root:
            assert (root.folder / "file").read_text() == "content"
            with (root.devices / "zero").open("rb") as zeros:
                assert zeros.read(3) == bytes(3)
            (root.folder / "new").touch()

    in_a_thread(work)
    assert mounts() == before
    assert sorted(path.name for path in folder.iterdir()) == ["dev", "file"]


def test_without_overlays_the_folder_itself_is_the_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    roots = BoxRoots(folder)
    assert not roots.own
    with roots.one() as root:
        assert root == (folder, Path("/dev"))


@pytest.fixture
def closed_folder(tmp_path: Path) -> Path:
    """A folder that everybody may read, below one that only its owner may enter."""
    folder = tmp_path / "closed" / "open"
    folder.mkdir(parents=True)
    (folder / "file").write_text("content")
    folder.chmod(0o755)
    folder.parent.chmod(0o700)
    return folder


def without_overlays(folder: Path) -> BoxRoots:
    roots = BoxRoots(folder)
    roots.own = False
    return roots


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_without_overlays_another_user_reads_a_closed_folder_of_root(closed_folder: Path) -> None:
    before = mounts_of(closed_folder)

    def read() -> None:
        roots = without_overlays(closed_folder)
        for _ in range(2):
            with roots.one() as root:
                command = ["cat", str(root.folder / "file")]
                found = subprocess.run(
                    command, capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[]
                )
                assert found.stdout == "content", found.stderr
                assert root.folder != closed_folder
                assert len(mounts_of(closed_folder)) > len(before)

    in_a_thread(read)
    assert mounts_of(closed_folder) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_where_that_cannot_be_done_the_remedy_is_named(closed_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_root, "PLACES", ("/nowhere",))

    def ask() -> None:
        remedy = f"/nowhere is there.*chmod o\\+x {closed_folder.parent}"
        with pytest.raises(ConfigurationError, match=remedy), without_overlays(closed_folder).one():
            pass

    in_a_thread(ask)


def test_without_overlays_an_open_folder_stays_where_it_is_and_so_does_ones_own(
    closed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with without_overlays(Path("/usr/bin")).one() as root:
        assert root.folder == Path("/usr/bin").resolve()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with without_overlays(closed_folder).one() as root:
        assert root.folder == closed_folder


def mounts_of(folder: Path) -> list[str]:
    """The mounts that this thread sees of `folder`, and of anything in the places where folders are made reachable."""
    lines = Path("/proc/thread-self/mountinfo").read_text().splitlines()
    ours = "/".join(folder.parts[-3:])
    return [line for line in lines if line.split()[3].endswith(ours) or line.split()[4] in box_root.PLACES]


def mounts() -> list[str]:
    """Those that this process sees where roots are mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split()[4].startswith(box_root.PLACES)]
