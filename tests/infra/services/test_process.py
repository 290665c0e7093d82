"""Nothing of ours survives, nothing of others is touched, and the home folder is for its owner alone."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from components.errors import ConfigurationError
from components.machine.process_ids import process_of
from infra.services.process import (
    MARK,
    ProcessRecord,
    find_marked,
    is_alive,
    lock_home,
    make_private,
    read_record,
    start,
    stop,
    write_record,
)
from tests.other_users import needs_another_user, strangers_process
from tests.processes import alive

SLEEPER = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
)
FAMILY = (
    sys.executable,
    "-c",
    "import subprocess, sys, time\n"
    "sleeper = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
    "same_group = subprocess.Popen(sleeper)\n"
    "own_session = subprocess.Popen(sleeper, start_new_session=True)\n"
    "print('up', same_group.pid, own_session.pid, flush=True)\n"
    "time.sleep(600)\n",
)


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    name = f"test@{tmp_path}"
    yield name
    for process in list(find_marked(name)):
        process.kill()


@pytest.fixture
def started(tmp_path: Path, mark: str) -> Callable[[tuple[str, ...]], ProcessRecord]:
    def begin(command: tuple[str, ...]) -> ProcessRecord:
        log = tmp_path / "logs" / "test.log"
        process = start(command, env=dict(os.environ), log=log, cwd=tmp_path, mark=mark)
        record = ProcessRecord(
            name="test", pid=process.pid, process=str(process), command=command, log=log, ports={}, launch_digest=""
        )
        wait_for(lambda: "up" in log.read_text())
        return record

    return begin


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_a_process_runs_in_a_session_of_its_own_until_it_is_stopped(
    started: Callable[[tuple[str, ...]], ProcessRecord], mark: str
) -> None:
    record = started(SLEEPER)
    assert is_alive(record)
    assert os.getsid(record.pid) == record.pid != os.getsid(0)
    stop(record, mark=mark, grace_seconds=5)
    assert not is_alive(record)
    assert not psutil.pid_exists(record.pid)


def test_one_that_ignores_sigterm_is_killed_after_its_grace(
    started: Callable[[tuple[str, ...]], ProcessRecord], mark: str
) -> None:
    record = started(STUBBORN)
    begin = time.monotonic()
    stop(record, mark=mark, grace_seconds=0.3)
    assert 0.3 <= time.monotonic() - begin < 3
    assert not is_alive(record)


def test_what_a_process_started_ends_with_it_in_any_session(
    started: Callable[[tuple[str, ...]], ProcessRecord], mark: str
) -> None:
    record = started(FAMILY)
    pids = [int(word) for word in record.log.read_text().split()[1:]]
    stop(record, mark=mark, grace_seconds=5)
    assert [pid for pid in pids if alive(pid)] == []


def test_what_outlived_a_killed_process_is_ended_too(
    started: Callable[[tuple[str, ...]], ProcessRecord], mark: str
) -> None:
    record = started(FAMILY)
    pids = [int(word) for word in record.log.read_text().split()[1:]]
    os.kill(record.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(record))
    assert all(psutil.pid_exists(pid) for pid in pids)
    stop(record, mark=mark, grace_seconds=5)
    assert [pid for pid in pids if alive(pid)] == []


def test_a_dead_child_that_nobody_collected_is_not_alive(
    started: Callable[[tuple[str, ...]], ProcessRecord], mark: str
) -> None:
    record = started(SLEEPER)
    os.kill(record.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(record))
    assert psutil.pid_exists(record.pid), "it is a zombie until it is collected"
    stop(record, mark=mark, grace_seconds=1)
    assert not psutil.pid_exists(record.pid)


def test_a_dead_child_that_another_process_does_not_collect_holds_nobody_up(
    started: Callable[[tuple[str, ...]], ProcessRecord], mark: str
) -> None:
    parent = "import subprocess, time; child = subprocess.Popen(['sleep', '60'], start_new_session=True); "
    record = started((sys.executable, "-c", f"{parent}print('up', child.pid, flush=True); time.sleep(60)"))
    child = psutil.Process(int(record.log.read_text().split()[1]))
    other = record.model_copy(update={"pid": child.pid, "process": str(process_of(child.pid))})
    began = time.monotonic()
    stop(other, mark="nobody's", grace_seconds=5)
    assert child.status() == psutil.STATUS_ZOMBIE
    assert time.monotonic() - began < 5
    stop(record, mark=mark, grace_seconds=5)


def test_a_pid_that_another_process_has_now_is_left_alone(mark: str, tmp_path: Path) -> None:
    with subprocess.Popen(SLEEPER, stdout=subprocess.DEVNULL, start_new_session=True) as stranger:
        try:
            process = process_of(stranger.pid)
            stale = ProcessRecord(
                name="test",
                pid=stranger.pid,
                process=str(process._replace(started=process.started - 1)),
                command=SLEEPER,
                log=tmp_path / "log",
                ports={},
                launch_digest="",
            )
            assert not is_alive(stale)
            stop(stale, mark=mark, grace_seconds=0.2)
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_the_mark_of_another_home_is_not_ours(tmp_path: Path, mark: str) -> None:
    env = {**os.environ, MARK: f"{mark}-other"}
    with subprocess.Popen(SLEEPER, stdout=subprocess.DEVNULL, env=env) as stranger:
        try:
            wait_for(lambda: psutil.Process(stranger.pid).environ().get(MARK) == f"{mark}-other")
            assert list(find_marked(mark)) == []
        finally:
            stranger.kill()


@needs_another_user
def test_a_process_of_another_user_that_carries_the_mark_is_none_of_ours(mark: str) -> None:
    with strangers_process("sleeper", ["sleeper"], {MARK: mark}) as process:
        wait_for(lambda: psutil.Process(process.pid).environ().get(MARK) == mark)
        assert list(find_marked(mark)) == []


def test_a_folder_open_to_all_is_narrowed_and_what_is_in_it_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("prefect", "mlflow", "logs", "services", "decisions", "runs", "errors"):
        (home / name).mkdir(mode=0o755, parents=True)
    home.chmod(0o777)
    with lock_home(home):
        pass
    assert home.stat().st_mode & 0o066 == 0
    assert {path.stat().st_mode & 0o777 for path in home.iterdir()} == {0o700}


def test_root_lets_its_boxes_pass_and_others_nobody(tmp_path: Path) -> None:
    make_private(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o777)
    os.chown(tmp_path / "home", 65534, 65534)
    with pytest.raises(ConfigurationError, match="belongs to another user"), lock_home(tmp_path / "home"):
        pass


def test_a_record_is_that_of_its_home_where_it_moves_and_not_where_it_is_copied(
    tmp_path: Path, mark: str, started: Callable[[tuple[str, ...]], ProcessRecord]
) -> None:
    home = tmp_path / "home"
    make_private(home)
    record = started(SLEEPER).model_copy(update={"log": home / "logs" / "test.log"})
    write_record(home, record)
    shutil.copytree(home, tmp_path / "copy")
    assert read_record(home, "test") == record
    assert read_record(tmp_path / "copy", "test") is None, "what the copy would stop are the services of the original"
    home.rename(tmp_path / "moved")
    assert read_record(tmp_path / "moved", "test") == record
    stop(record, mark=mark, grace_seconds=5)


def test_a_record_that_was_cut_is_named(tmp_path: Path) -> None:
    make_private(tmp_path)
    (tmp_path / "services" / "s3.json").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"s3\.json: is no record of a service .*remove it"):
        read_record(tmp_path, "s3")
