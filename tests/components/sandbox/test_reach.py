"""A closed folder is within reach of the processes that one thread starts, and nowhere else."""

import os
import subprocess
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.sandbox import reach
from components.sandbox.reach import ReachableFolder
from tests.components.sandbox.threads import in_a_thread

NOBODY = 65534


@pytest.fixture
def closed_folder(tmp_path: Path) -> Path:
    """A folder that everybody may read, below one that only its owner may enter."""
    folder = tmp_path / "closed" / "open"
    folder.mkdir(parents=True)
    (folder / "file").write_text("content")
    folder.chmod(0o755)
    folder.parent.chmod(0o700)
    return folder


def mounts_of(folder: Path) -> list[str]:
    """The mounts that this thread sees of `folder`, and of anything in the places where folders are made reachable."""
    lines = Path("/proc/thread-self/mountinfo").read_text().splitlines()
    ours = "/".join(folder.parts[-3:])
    return [line for line in lines if line.split()[3].endswith(ours) or line.split()[4] in reach.PLACES]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_user_reads_a_closed_folder_of_root(closed_folder: Path) -> None:
    before = mounts_of(closed_folder)

    def read() -> None:
        place = ReachableFolder(closed_folder)
        command = ["cat", str(place.path() / "file")]
        found = subprocess.run(command, capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[])
        assert found.stdout == "content", found.stderr
        assert place.path() == place.path() != closed_folder
        assert len(mounts_of(closed_folder)) > len(before)

    in_a_thread(read)
    assert mounts_of(closed_folder) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_where_that_cannot_be_done_the_remedy_is_named(closed_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "PLACES", ("/nowhere",))

    def ask() -> None:
        with pytest.raises(ConfigurationError, match=f"chmod o\\+x {closed_folder.parent}"):
            ReachableFolder(closed_folder).path()

    in_a_thread(ask)


def test_an_open_folder_stays_where_it_is_and_so_does_ones_own(
    closed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ReachableFolder(Path("/usr/bin")).path() == Path("/usr/bin").resolve()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert ReachableFolder(closed_folder).path() == closed_folder
