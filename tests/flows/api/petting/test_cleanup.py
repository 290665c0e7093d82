"""What killed processes have left is removed, and nothing of living ones."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from components.errors import ServiceMissing
from components.sandbox import docker_api, reaper
from components.sandbox.daemon import Daemon
from flows import leftovers
from flows.api.petting.utils.cleanup import cleanup


@pytest.mark.parametrize(("host", "is_local"), [("unix:///run/docker.sock", True), ("tcp://away:2375", False)])
def test_containers_of_dead_owners_are_removed_where_their_owners_are_known(
    host: str, is_local: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def remove(api: Any, *, local: bool) -> int:
        asked.append((api, local))
        return 4

    monkeypatch.setattr(leftovers, "running_daemon", lambda *_: Daemon(host=host, private=False, version="28"))
    monkeypatch.setattr(docker_api, "DockerApi", nullcontext)
    monkeypatch.setattr(reaper, "remove_leftovers", remove)
    assert cleanup()["containers"] == 4
    assert asked == [(host, is_local)]


@pytest.mark.parametrize("found", [None, ServiceMissing("no docker SDK")])
def test_without_docker_there_are_no_containers(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def running_daemon(*_: object) -> None:
        if found is not None:
            raise found

    monkeypatch.setattr(leftovers, "running_daemon", running_daemon)
    assert cleanup()["containers"] == 0


def test_scratch_of_a_killed_process_goes_and_that_of_a_living_one_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = "import os, signal\nfrom components.machine.scratch import scratch_folder\nprint(scratch_folder(), flush=True)\n"
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    tmp_path.chmod(0o700)
    root = Path(__file__).resolve().parents[4]

    def run_to_end(end: str) -> Path:
        command = [sys.executable, "-c", code + end]
        ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        return Path(ended.stdout.splitlines()[0])

    left = run_to_end("os.kill(os.getpid(), signal.SIGKILL)")
    assert left.is_dir()
    living = run_to_end("from flows.api.petting.utils import cleanup\ncleanup()\nassert scratch_folder().is_dir()")
    assert not left.exists()
    assert living != left
