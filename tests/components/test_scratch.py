"""Folders of processes that ended, however they ended."""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ASK = "from components.scratch import scratch_folder; print(scratch_folder(), flush=True); "


def started(then: str, temporary: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that asked for its folder, and the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASK + then],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=60)
    return process.returncode


def test_a_folder_goes_with_its_process(tmp_path: Path) -> None:
    process, folder = started("input()", tmp_path)
    assert folder.is_dir()
    process.communicate("\n", timeout=60)
    assert not folder.exists()


def test_what_a_killed_process_left_goes_when_the_next_one_asks(tmp_path: Path) -> None:
    living, kept = started("input()", tmp_path)
    killed, left = started("input()", tmp_path)
    (left / "checkpoints").mkdir()
    (left / "checkpoints" / "weights").write_bytes(b"1" * 1000)
    killed.send_signal(signal.SIGKILL)
    assert ended(killed) == -signal.SIGKILL
    assert left.exists()

    assert ended(started("", tmp_path)[0]) == 0
    assert not left.exists()
    assert kept.exists()
    living.communicate("\n", timeout=60)


def test_a_forked_process_leaves_the_folder_to_its_parent(tmp_path: Path) -> None:
    fork = "import os, sys; child = os.fork(); child or sys.exit(0); os.waitpid(child, 0); print(scratch_folder().is_dir())"
    process, _ = started(fork, tmp_path)
    assert process.communicate(timeout=60)[0].strip() == "True"


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give a folder away")
def test_somebody_elses_folder_is_refused(tmp_path: Path) -> None:
    home = tmp_path / f"troupe-scratch-0-{platform.node()}"
    home.mkdir()
    os.chown(home, 12345, 12345)
    process = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "belongs to somebody else; set TMPDIR" in process.stderr
