"""Choosing a backend: docker, then bubblewrap, then a refusal that helps."""

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from components.errors import SandboxUnavailable, ServiceMissing
from components.machine.process_ids import this_process
from components.sandbox import backends
from components.sandbox.backends import FALLBACK_FILE, open_sandbox, probe
from components.sandbox.daemon import Daemon
from tests.components.sandbox.conftest import NOWHERE
from tests.components.sandbox.leftovers import clean_leftovers


@pytest.fixture
def bwrap() -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: `apt-get install -y bubblewrap`")


@pytest.fixture
def nothing_installed(no_machine_daemon: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)


def test_auto_takes_docker_where_an_daemon_answers(daemon: Daemon, state_folder: Path) -> None:
    sandbox = open_sandbox("auto", state_folder=state_folder)
    try:
        assert sandbox.description.backend == "docker"
        assert sandbox.description.num_boxes == 2 * len(os.sched_getaffinity(0))
        assert sandbox.run("print(6 * 7)").stdout == "42\n"
    finally:
        sandbox.close()


def test_auto_takes_bubblewrap_where_no_daemon_is_and_says_so(
    bwrap: None, no_machine_daemon: None, state_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (state_folder / FALLBACK_FILE).unlink(missing_ok=True)
    with caplog.at_level(logging.WARNING):
        sandbox = open_sandbox("auto", state_folder=state_folder, num_boxes=1, docker_host=NOWHERE)
    try:
        assert sandbox.description.backend == "bubblewrap"
        assert sandbox.run("print(6 * 7)").stdout == "42\n"
    finally:
        sandbox.close()
    assert "bubblewrap instead of docker (said once" in caplog.text
    assert "the daemon at unix:///nowhere/docker.sock does not answer" in caplog.text


def test_another_backend_is_named_once_until_the_usual_one_works_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    works = [False]
    pools: list[Any] = [object(), object()]

    def docker() -> Any:
        if not works[0]:
            raise ServiceMissing("not here")
        return pools[0]

    for works[0], num_warnings in ((False, 1), (False, 1), (True, 1), (False, 2), (False, 2)):
        assert backends._first({"docker": docker, "bubblewrap": lambda: pools[1]}, tmp_path) is pools[not works[0]]
        assert len(caplog.records) == num_warnings


def test_where_nothing_works_the_refusal_names_both_reasons_and_both_commands(
    nothing_installed: None, state_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "rootfs").symlink_to(state_folder / "rootfs")  # spares a build; the daemon is left out
    with pytest.raises(ServiceMissing) as caught:
        open_sandbox("auto", state_folder=tmp_path)
    text = str(caught.value)
    assert "dockerd is not installed" in text
    assert "bwrap is not installed" in text
    assert "apt-get install -y docker.io" in text
    assert "apt-get install -y bubblewrap" in text


def test_a_backend_that_was_asked_for_is_not_replaced_by_another(
    nothing_installed: None, state_folder: Path, daemon: Daemon
) -> None:
    with pytest.raises(SandboxUnavailable, match="nowhere"):
        open_sandbox("docker", state_folder=state_folder, docker_host=NOWHERE)
    with pytest.raises(ServiceMissing, match="apt-get install -y bubblewrap"):
        open_sandbox("bubblewrap", state_folder=state_folder)


def test_a_probe_of_docker_tells_an_daemon_that_runs_one_that_can_start_and_none(
    daemon: Daemon, state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = probe("docker", state_folder=state_folder)
    assert (running.works, running.detail) == (True, f"version {daemon.version} at {daemon.host}, private")
    startable = probe("docker", state_folder=tmp_path)
    assert startable.works
    assert startable.detail.startswith("not running; ")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("shutil.which", lambda name: None)
    missing = probe("docker", state_folder=tmp_path)
    assert not missing.works
    assert "dockerd is not installed" in missing.detail
    assert "apt-get install -y docker.io" in missing.remedy
    assert not probe("docker", state_folder=state_folder, docker_host=NOWHERE).works


def test_a_probe_of_bubblewrap_runs_a_program(bwrap: None, state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert probe("bubblewrap", state_folder=state_folder).works
    monkeypatch.setattr("shutil.which", lambda name: None)
    missing = probe("bubblewrap", state_folder=state_folder)
    assert not missing.works
    assert "apt-get install -y bubblewrap" in missing.remedy


def test_leftovers_of_dead_owners_are_cleaned_without_an_daemon(no_machine_daemon: None, tmp_path: Path) -> None:
    owner = this_process()
    for started in (owner.started, owner.started - 1):
        (tmp_path / "rootfs" / f".part-x-{owner._replace(started=started)}").mkdir(parents=True)
    assert clean_leftovers(tmp_path) == 1
    assert [path.name for path in (tmp_path / "rootfs").iterdir()] == [f".part-x-{owner}"]
