"""A test run that is killed or interrupted leaves no service of its folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.sandbox.dockerd import within
from infra.services.lifecycle import mark_of
from infra.services.process import MARK
from tests.processes import alive

RUN = """
import os, subprocess, sys, time
from pathlib import Path
from tests.docker_cleanup import leftovers_ended_below
with leftovers_ended_below(Path(sys.argv[1])):
    own = {**os.environ, sys.argv[2]: sys.argv[3]}
    quiet = subprocess.DEVNULL
    service = subprocess.Popen(["sleep", "1000"], env=own, stdout=quiet, stderr=quiet, start_new_session=True)
    if (holder := os.fork()) == 0:  # it holds the watcher's input open
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.setsid()
        time.sleep(1000)
    print(service.pid, holder, flush=True)
    os.kill(os.getpid(), int(sys.argv[4]))
"""


@pytest.mark.parametrize(
    ("how", "variable"), [(signal.SIGKILL, MARK), (signal.SIGINT, MARK), (signal.SIGTERM, "TROUPE_HOME")]
)
def test_its_services_end_with_it(how: signal.Signals, variable: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    value = mark_of(home, "mlflow") if variable == MARK else str(home)
    command = [sys.executable, "-c", RUN, str(tmp_path), variable, value, str(int(how))]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    service, holder = map(int, told.stdout.split())
    try:
        assert told.returncode != 0
        assert within(120.0, lambda: not alive(service))
        assert alive(holder), "another process is not of this folder"
    finally:
        os.kill(holder, signal.SIGKILL)
