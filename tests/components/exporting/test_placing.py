"""A folder that is there whole or not at all."""

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import SafetensorError

from components.errors import ConfigurationError, StoreRefused
from components.exporting.placing import WHOLE, check_place, fill_at_once


def fill(place: Path) -> None:
    with fill_at_once(place, argument="DIR") as work:
        (work / "scratch").write_text("not wanted")
        for name in ("one", "two"):
            (work / WHOLE / name).mkdir()
            (work / WHOLE / name / "file").write_text(name)
        assert not place.exists() or not any(place.iterdir()), "nothing is there before all of it is"


def contents(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_new_folder_appears_at_once_with_its_parents(tmp_path: Path) -> None:
    fill(tmp_path / "a" / "b")
    assert contents(tmp_path) == {"a", "a/b", "a/b/one", "a/b/one/file", "a/b/two", "a/b/two/file"}


def test_an_empty_folder_stays_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that `mkdir x && cd x && troupe export run .` shows something."""
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    inode = Path().stat().st_ino
    fill(check_place(".", argument="DIR"))
    assert sorted(os.listdir()) == ["one", "two"]
    assert (tmp_path / "x").stat().st_ino == inode
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("exists", [True, False])
def test_after_an_error_nothing_is_left(exists: bool, tmp_path: Path) -> None:
    place = tmp_path / "x"
    if exists:
        place.mkdir()

    def interrupt() -> None:
        with fill_at_once(place, argument="DIR") as work:
            (work / WHOLE / "half").mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert contents(tmp_path) == ({"x"} if exists else set())


@pytest.mark.parametrize("place", ["/proc/x", "/proc/x/y", "file/x", "file/x/y", "/dev/null/x"])
def test_a_folder_that_cannot_be_made_is_one_line(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = r"^DIR '.*': it cannot be created \(.+\); name another folder$"
    with pytest.raises(ConfigurationError, match=told), fill_at_once(tmp_path / place, argument="DIR"):
        pass
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "f"),
        SafetensorError("I/O error: Disk quota exceeded (os error 122)"),
    ],
)
def test_a_full_disk_is_told_by_its_place(error: Exception, tmp_path: Path) -> None:
    def fill() -> None:
        with fill_at_once(tmp_path / "x", argument="DIR"):
            raise error

    with pytest.raises(StoreRefused, match=r"^DIR '.*/x': no space left; free some, or name another folder$"):
        fill()
    assert contents(tmp_path) == set()


KILLED = """
import os, signal, sys
from pathlib import Path
from components.exporting.placing import WHOLE, fill_at_once
with fill_at_once(Path(sys.argv[1]), argument="DIR") as work:
    (work / WHOLE / "half").mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["x", "[-@]*" * 20, "\u65e5" * 85])
def test_what_a_killed_process_left_goes_with_the_next_attempt(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    killed = subprocess.run([sys.executable, "-c", KILLED, str(place)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    others = {
        "x.unfinished-notes",
        f"y.unfinished-{left.rpartition('.unfinished-')[2]}",
        left.replace(f"@{socket.gethostname()}-", "@another-host-"),
    }
    for other in others:
        (tmp_path / other).mkdir()
    with fill_at_once(place, argument="DIR") as live:
        assert set(os.listdir(tmp_path)) == others | {live.name}
        with fill_at_once(place, argument="DIR"):
            assert live.is_dir(), "its process runs"
    assert set(os.listdir(tmp_path)) == others | {name}


@pytest.mark.parametrize("exists", [True, False])
def test_who_comes_second_changes_nothing(exists: bool, tmp_path: Path) -> None:
    place = tmp_path / "x"
    if exists:
        place.mkdir()
    with (
        pytest.raises(ConfigurationError, match=r"DIR .*name (another|a folder)"),
        fill_at_once(place, argument="DIR"),
    ):
        fill(place)
    assert contents(tmp_path) == {"x", "x/one", "x/one/file", "x/two", "x/two/file"}


def test_the_mode_is_that_of_any_new_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    fill(tmp_path / "x")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_place_that_is_taken_or_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "there").symlink_to(tmp_path)
    for text, line in {
        str(tmp_path): "is not empty; name a folder that does not exist yet",
        str(tmp_path / "there"): "is not empty",
        str(tmp_path / "file"): "is a file",
        "/": "is not empty",
        "/dev/shm/" + "x" * 300: "File name too long",
        "s3://bucket/x": "name a folder of this machine",
    }.items():
        with pytest.raises(ConfigurationError, match=f"^DIR {re.escape(repr(text))}: {line}"):
            check_place(text, argument="DIR")


def test_a_link_to_a_place_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fill(check_place(str(tmp_path / "link"), argument="DIR"))
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path / "real")) == ["one", "two"]


def test_a_disk_of_its_own_is_told(tmp_path: Path) -> None:
    roots = [path for path in map(Path, ("/dev/shm", "/dev/mqueue", "/sys/fs/pstore")) if path.is_mount()]
    root = next((path for path in roots if not any(path.iterdir())), None)
    if root is None:
        pytest.skip("no empty root of a disk here")
    with pytest.raises(ConfigurationError, match="is the root of a disk; name a new folder in it"):
        check_place(str(root), argument="DIR")
