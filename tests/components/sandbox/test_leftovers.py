"""A test run that ends or is killed leaves no engine: its folder can be removed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from components.sandbox.daemon import running_daemon, stop_daemon
from components.sandbox.dockerd import within
from tests.components.sandbox.conftest import NOWHERE
from tests.components.sandbox.remains import remains_of
from tests.docker_cleanup import state_folders_below

RUN = f"""
import os, signal, sys
from pathlib import Path
from components.sandbox import daemon
from tests.docker_cleanup import leftovers_ended_below
daemon.DEFAULT_HOST = {NOWHERE!r}
folder = Path(sys.argv[1])
with leftovers_ended_below(folder):
    daemon.ensure_daemon(folder / "of a test")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_test_run_leaves_ends(no_machine_daemon: None, can_start_daemons: None, tmp_path: Path) -> None:
    state_folder = tmp_path / "of a test"
    try:
        assert subprocess.run([sys.executable, "-c", RUN, str(tmp_path)]).returncode == -signal.SIGKILL
        assert within(30.0, lambda: not state_folders_below(tmp_path) and remains_of(state_folder) == [])
        assert running_daemon(state_folder) is None
        shutil.rmtree(tmp_path)
        assert not os.path.exists(tmp_path)
    finally:
        stop_daemon(state_folder)


TEST = f"""
from components.machine.home import HOME
from components.sandbox import daemon

def test_it(monkeypatch):
    monkeypatch.setattr(daemon, "DEFAULT_HOST", {NOWHERE!r})
    assert daemon.ensure_daemon(HOME / "sandbox").private
"""


def test_the_engine_that_the_tests_of_a_checkout_start_ends_with_them(can_start_daemons: None, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-n0", "--rootdir", str(tmp_path)]
    try:
        done = subprocess.run(
            [*command, str(tmp_path / "test_it.py")],
            env={**os.environ, "TROUPE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert "1 passed" in done.stdout, done.stdout + done.stderr
        assert state_folders_below(tmp_path) == set()
    finally:
        stop_daemon(tmp_path / "sandbox")
