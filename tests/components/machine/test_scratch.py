"""Scratch folders of processes, however they end."""

import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from components.machine import scratch
from components.machine.scratch import private_folder, scratch_folder, socket_folder
from flows.presets import preset_config
from flows.runners import _ray_settings
from infra.services.loopback import choose_ports
from tests.other_users import STRANGER, as_stranger, needs_another_user

ASK = "from components.machine.scratch import scratch_folder; print(scratch_folder(), flush=True); "


def start(then: str, temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has made its folder, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASK + then],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=60)
    return process.returncode


def test_a_folder_goes_with_its_process(tmp_path: Path) -> None:
    process, folder = start("input()", tmp_path)
    assert folder.is_dir()
    process.communicate("\n", timeout=60)
    assert not folder.exists()


def test_what_a_killed_process_left_goes_when_the_next_one_asks(tmp_path: Path) -> None:
    living, kept = start("input()", tmp_path)
    killed, left = start("input()", tmp_path)
    (left / "checkpoints").mkdir()
    (left / "checkpoints" / "weights").write_bytes(b"1" * 1000)
    killed.send_signal(signal.SIGKILL)
    assert end(killed) == -signal.SIGKILL
    assert left.exists()

    assert end(start("", tmp_path)[0]) == 0
    assert not left.exists()
    assert kept.exists()
    living.communicate("\n", timeout=60)


def test_a_forked_process_leaves_the_folder_to_its_parent(tmp_path: Path) -> None:
    fork = "import os, sys; child = os.fork(); child or sys.exit(0); os.waitpid(child, 0); print(scratch_folder().is_dir())"
    process, _ = start(fork, tmp_path)
    assert process.communicate(timeout=60)[0].strip() == "True"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files like /tmp: writable for all users, and sticky."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of this user with files in it."""
    folder = tmp_path / "victim"
    (folder / "precious").mkdir(parents=True)
    (folder / "precious" / "file").write_text("kept")
    (folder / "8333").write_text("kept")
    folder.chmod(0o700)
    return folder


def plant(kind: str, at: Path, victim: Path) -> None:
    """Put something at the path that is used next."""
    if kind == "link to a folder":
        at.symlink_to(victim)
    elif kind == "link to nothing":
        at.symlink_to(victim / "made")
    elif kind == "file":
        at.touch()
    elif kind == "pipe":
        os.mkfifo(at)
    else:
        at.mkdir()
        at.chmod(0o777 if kind == "open folder" else 0o700)
        if kind == "somebody else's folder":
            os.chown(at, STRANGER, STRANGER)


KINDS = ["link to a folder", "link to nothing", "file", "pipe", "open folder"]
THEIRS = pytest.param("somebody else's folder", marks=needs_another_user)


@pytest.mark.parametrize("kind", [*KINDS, THEIRS])
def test_what_is_planted_at_the_name_is_refused_and_left_alone(kind: str, shared: Path, victim: Path) -> None:
    name = private_folder("troupe-scratch").name
    (shared / name).rmdir()
    plant(kind, shared / name, victim)
    before = sorted(victim.rglob("*"))
    with pytest.raises(PermissionError, match=rf"{name} is .*(set TMPDIR|remove it)"):
        scratch_folder.__wrapped__()
    with pytest.raises(PermissionError):
        private_folder("troupe-scratch")
    assert sorted(victim.rglob("*")) == before
    assert [path.name for path in shared.iterdir()] == [name]


@pytest.mark.parametrize("kind", [*KINDS, THEIRS])
def test_reserving_a_port_follows_and_empties_nothing(kind: str, shared: Path, victim: Path) -> None:
    folder = private_folder("troupe-ports")
    folder.rmdir()
    plant(kind, folder, victim)
    with ExitStack() as reserved, pytest.raises(PermissionError, match=folder.name):
        choose_ports({"s3": 8333}, reserved=reserved)
    assert (victim / "8333").read_text() == "kept"


def test_a_link_inside_the_ports_folder_is_not_followed(shared: Path, victim: Path) -> None:
    (private_folder("troupe-ports") / "8333").symlink_to(victim / "8333")
    with ExitStack() as reserved, pytest.raises(OSError, match="symbolic links"):
        choose_ports({"s3": 8333}, reserved=reserved)
    assert (victim / "8333").read_text() == "kept"


def test_a_link_that_appears_between_the_look_and_the_use_is_refused(
    shared: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is created or found in one step, and checked afterwards."""
    name = private_folder("troupe-scratch").name
    (shared / name).rmdir()
    make = Path.mkdir

    def beaten(path: Path, *arguments: Any, **options: Any) -> None:
        path.symlink_to(victim)
        make(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", beaten)
    with pytest.raises(PermissionError, match=name):
        private_folder("troupe-scratch")


@needs_another_user
def test_another_user_cannot_replace_the_folder_or_look_into_it(shared: Path) -> None:
    folder = private_folder("troupe-scratch")
    around = os.open(shared, os.O_RDONLY)  # other users cannot enter pytest's folders
    acts: dict[str, Callable[[], object]] = {
        "make": partial(os.mkdir, "mine", dir_fd=around),
        "rename": partial(os.rename, folder.name, "moved", src_dir_fd=around, dst_dir_fd=around),
        "remove": partial(os.rmdir, folder.name, dir_fd=around),
        "look": partial(os.open, folder.name, os.O_RDONLY, dir_fd=around),
    }
    done = {name: as_stranger(act) for name, act in acts.items()}
    os.close(around)
    assert done == {"make": "None", **dict.fromkeys(("rename", "remove", "look"), "PermissionError")}
    assert private_folder("troupe-scratch") == folder


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_a_temporary_folder_in_which_others_can_rename_is_refused(mode: int, shared: Path) -> None:
    shared.chmod(mode)
    with pytest.raises(PermissionError, match=r"other users can replace files in .*set TMPDIR"):
        private_folder("troupe-scratch")


@needs_another_user
def test_a_temporary_folder_of_somebody_else_is_refused(shared: Path) -> None:
    os.chown(shared, STRANGER, STRANGER)
    with pytest.raises(PermissionError, match="other users can replace"):
        private_folder("troupe-scratch")


def test_sockets_are_made_below_a_short_folder(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest path is Ray's."""
    monkeypatch.setattr(scratch, "SHORT_PARENT", tmp_path)
    for name in ("RAY_ADDRESS", "RAY_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    folder = Path(_ray_settings(preset_config("tiny", []))["_temp_dir"])
    assert folder.parent.parent == tmp_path
    assert folder.parent == socket_folder("troupe-ray")
    assert not folder.exists(), "Ray makes it, and opens it to everybody"
    assert private_folder("troupe-ray").parent == shared
    socket = f"/{folder.parent.name}/ray/session_2026-11-28_19-41-23_123456_1234567/sockets/plasma_store"
    assert scratch.LONGEST_PARENT + len(socket) <= 107
    assert "_temp_dir" not in _ray_settings(preset_config("tiny", ["resources.ray_address=ray://head:10001"]))


def test_names_differ_by_user_and_machine(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = private_folder("troupe-ports")
    assert here.name.startswith(f"troupe-ports-{os.getuid()}-")
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    assert private_folder("troupe-ports") != here
