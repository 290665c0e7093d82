"""A test run that is killed leaves no engine: its folder can be removed."""

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
