"""Boxes see the same files, and the kernel sees files of each box's own."""

import fcntl
import os
from pathlib import Path

import pytest

from components.sandbox import reach
from components.sandbox.box_root import DEVICES, BoxRoots
from tests.components.sandbox.threads import in_a_thread


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


def mounts() -> list[str]:
    """Those that this process sees where roots are mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if line.split()[4].startswith(reach.PLACES)]
