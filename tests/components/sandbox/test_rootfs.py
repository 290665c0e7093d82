"""The boxes' file system: the same from the same parts, and nothing in it that was not meant to be."""

import io
import os
import stat
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.machine.process_ids import this_process
from components.sandbox import rootfs
from components.sandbox.rootfs import build_rootfs, find_or_build_rootfs, remove_unused_rootfs, rootfs_digest, write_tar

RUNNER = Path(rootfs.__file__).with_name("runner.py")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture(scope="module")
def built(state_folder: Path) -> tuple[Path, str]:
    """What two builders that started at once agree on."""
    with ThreadPoolExecutor(2) as builders:
        first, second = builders.map(find_or_build_rootfs, [state_folder, state_folder])
    assert first == second
    return first


def test_two_builders_at_once_leave_one_file_system(built: tuple[Path, str], state_folder: Path) -> None:
    assert [path.name for path in (state_folder / "rootfs").iterdir()] == [built[0].parent.name]


def test_the_same_parts_give_the_same_digest_whatever_the_umask(built: tuple[Path, str], tmp_path: Path) -> None:
    with umask(0o077):
        digest = build_rootfs(tmp_path / "again")
    assert digest == built[1] == rootfs_digest(built[0])
    assert list(tmp_path.iterdir()) == [tmp_path / "again"]


def test_it_holds_the_interpreter_the_runner_and_no_other_program(built: tuple[Path, str]) -> None:
    root = built[0]
    assert (root / "runner.py").read_bytes() == RUNNER.read_bytes()
    ours = {"cleanup.py", "confinement.py", "job.py", "program.py", "usage_counters.py"}
    assert {path.name for path in (root / "components").rglob("*") if path.is_file()} == ours
    programs = [
        path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o111
    ]
    others = [path for path in programs if ".so" not in path.name]
    assert [str(path.relative_to(root)) for path in others] == [os.path.realpath(sys.executable)[1:]]
    assert not any(path.read_bytes().startswith(b"#!") for path in programs)


def test_nothing_in_it_is_setuid_unreadable_or_writable_by_programs(built: tuple[Path, str]) -> None:
    for path in built[0].rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            continue
        assert stat.S_ISDIR(mode) or stat.S_ISREG(mode), path
        if path == built[0] / "tmp":
            assert stat.S_IMODE(mode) == 0o1777
        else:
            assert stat.S_IMODE(mode) in ((0o755,) if stat.S_ISDIR(mode) else (0o644, 0o755)), path


def test_it_has_no_third_party_package_and_its_links_stay_inside(built: tuple[Path, str]) -> None:
    root = built[0]
    assert not list(root.rglob("site-packages"))
    for link in (path for path in root.rglob("*") if path.is_symlink()):
        assert (root / os.readlink(link).lstrip("/")).is_file(), link


def test_the_digest_tells_contents_names_permissions_and_links_apart(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("one")
    link.symlink_to("file")
    digests = [rootfs_digest(tmp_path)]
    os.utime(file, (1, 1))
    assert rootfs_digest(tmp_path) == digests[0]
    file.write_text("two")
    digests.append(rootfs_digest(tmp_path))
    file.chmod(0o755)
    digests.append(rootfs_digest(tmp_path))
    link.unlink()
    link.symlink_to("other")
    digests.append(rootfs_digest(tmp_path))
    file.rename(tmp_path / "name")
    digests.append(rootfs_digest(tmp_path))
    assert len(set(digests)) == len(digests)


def test_the_archive_belongs_to_root_has_no_times_and_unpacks_to_the_same_digest(tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "python3").write_text("interpreter")
    (root / "usr" / "bin" / "python3").chmod(0o755)
    (root / "python").symlink_to("/usr/bin/python3")
    archive = io.BytesIO()
    write_tar(root, archive)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as found:
        assert {(member.uid, member.gid, member.mtime) for member in found} == {(0, 0, 0)}
        found.extractall(copy, filter="fully_trusted")
    assert rootfs_digest(copy) == rootfs_digest(root)


def test_another_runner_asks_for_another_file_system(
    built: tuple[Path, str], state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "runner.py"
    other.write_text("print('another')")
    monkeypatch.setattr(rootfs, "_RUNNER_FILES", {other: "/runner.py"})
    owner = this_process()
    killed = state_folder / "rootfs" / f".part-abc-{owner._replace(started=owner.started - 1)}"
    killed.mkdir(parents=True)
    path, digest = find_or_build_rootfs(state_folder)
    assert not killed.exists(), "who builds removes what a killed builder left"
    assert digest != built[1]
    assert (path / "runner.py").read_bytes() == other.read_bytes()
    assert built[0].is_dir()
    monkeypatch.undo()
    assert remove_unused_rootfs(state_folder) == 0
    os.utime(path.parent, (0, 0))
    os.utime(built[0].parent, (0, 0))  # old as well, but of the runner of today
    assert remove_unused_rootfs(state_folder) == 1
    assert built[0].is_dir()
    assert not path.exists()


def test_what_a_killed_builder_left_is_removed_and_a_living_one_is_not(tmp_path: Path) -> None:
    owner = this_process()
    living = tmp_path / "rootfs" / f".part-abc-{owner}"
    dead = tmp_path / "rootfs" / f".part-abc-{owner._replace(started=owner.started - 1)}"
    (living / "root").mkdir(parents=True)
    (dead / "root").mkdir(parents=True)
    assert remove_unused_rootfs(tmp_path) == 1
    assert living.is_dir()
    assert not dead.exists()


def test_an_interpreter_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="python /bin/false: not an interpreter"):
        build_rootfs(tmp_path / "root", python=Path("/bin/false"))
    assert not (tmp_path / "root").exists()
