"""Finding, starting, losing and stopping a private daemon."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from components.errors import SandboxUnavailable, ServiceMissing
from components.sandbox import daemon as daemons
from components.sandbox.daemon import Daemon, ensure_daemon, running_daemon, stop_daemon
from tests.components.sandbox.conftest import NOWHERE
from tests.components.sandbox.leftovers import clean_dead_daemon
from tests.components.sandbox.remains import daemon_name, pids_naming, remains_of
from tests.processes import alive, read_name

ENSURE = """
import sys
from pathlib import Path
from components.sandbox import daemon
daemon.DEFAULT_HOST = "unix:///nowhere/docker.sock"
print(daemon.ensure_daemon(Path(sys.argv[1])))
"""


def dockerd_pids(state_folder: Path) -> list[int]:
    found = pids_naming(f"unix:///run/{daemon_name(state_folder)}/docker.sock")
    return [
        process.pid for process in psutil.process_iter() if process.pid in found and read_name(process) == "dockerd"
    ]


def test_two_processes_at_once_start_one_daemon_that_outlives_them_and_stops_without_remains(
    can_start_daemons: None, tmp_path: Path
) -> None:
    assert not stop_daemon(tmp_path)
    command = [sys.executable, "-c", ENSURE, str(tmp_path)]
    env = {**os.environ, "CANARY_API_KEY": "canary"}
    starters = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(2)]
    told = [starter.communicate(timeout=60)[0] for starter in starters]
    try:
        assert told[0] == told[1]
        assert "private=True" in told[0]
        [pid] = dockerd_pids(tmp_path)
        assert set(psutil.Process(pid).environ()) == {"PATH"}
        assert (Path("/run") / daemon_name(tmp_path)).stat().st_mode & 0o777 == 0o700
    finally:
        assert stop_daemon(tmp_path)
    assert remains_of(tmp_path) == []
    assert not stop_daemon(tmp_path)


def test_an_daemon_is_found_again_and_not_started_twice(daemon: Daemon, state_folder: Path) -> None:
    pids = dockerd_pids(state_folder)
    assert ensure_daemon(state_folder) == running_daemon(state_folder) == daemon
    assert dockerd_pids(state_folder) == pids
    assert daemon.private
    assert daemon.is_local


def test_a_caller_s_address_is_taken_and_no_other(daemon: Daemon, state_folder: Path) -> None:
    found = ensure_daemon(state_folder, docker_host=daemon.host)
    assert found.host == daemon.host
    assert running_daemon(state_folder, docker_host=NOWHERE) is None
    with pytest.raises(SandboxUnavailable, match=r"the daemon at unix:///nowhere/docker.sock does not answer"):
        ensure_daemon(state_folder, docker_host=NOWHERE)


def test_a_killed_daemon_is_started_again_and_a_cleaned_one_leaves_nothing(
    no_machine_daemon: None, can_start_daemons: None, tmp_path: Path
) -> None:
    before = ensure_daemon(tmp_path)
    try:
        [pid] = dockerd_pids(tmp_path)
        os.kill(pid, signal.SIGKILL)
        assert ensure_daemon(tmp_path) == before
        [again] = dockerd_pids(tmp_path)
        assert again != pid
        assert not clean_dead_daemon(tmp_path)
        os.kill(again, signal.SIGKILL)
        while alive(again):  # a killed process takes a while to be gone
            time.sleep(0.02)
        assert clean_dead_daemon(tmp_path)
        assert remains_of(tmp_path) == []
    finally:
        stop_daemon(tmp_path)


def test_a_hung_daemon_is_told_by_its_process_and_not_waited_for(
    daemon: Daemon, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "_PROBE_SECONDS", 0.5)
    [pid] = dockerd_pids(state_folder)
    os.kill(pid, signal.SIGSTOP)
    try:
        started = time.monotonic()
        assert running_daemon(state_folder) is None
        with pytest.raises(SandboxUnavailable, match=f"kill -9 {pid}"):
            ensure_daemon(state_folder)
        assert time.monotonic() - started < 5
    finally:
        os.kill(pid, signal.SIGCONT)
    assert running_daemon(state_folder) == daemon


def test_an_daemon_that_ends_at_its_start_is_told_with_the_end_of_its_log(
    no_machine_daemon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "dockerd"
    program.write_text("#!/bin/sh\necho 'failed to mount overlay: operation not permitted'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(daemons, "dockerd_program", lambda reason: str(program))
    with pytest.raises(ServiceMissing, match=r"it ended(.|\n)*failed to mount overlay") as caught:
        ensure_daemon(tmp_path)
    assert str(tmp_path / "engine" / "dockerd.log") in str(caught.value)
    assert remains_of(tmp_path) == []


def test_without_dockerd_the_error_names_the_install_command(
    no_machine_daemon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ServiceMissing, match=r"nowhere(.|\n)*`apt-get install -y docker.io` as root"):
        ensure_daemon(tmp_path)


def test_without_root_the_error_names_starting_docker_and_bubblewrap(
    no_machine_daemon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ServiceMissing, match=r"systemctl start docker.*bubblewrap"):
        ensure_daemon(tmp_path)
