"""Records of the processes of flow runs, and how the runs of this host are ended."""

import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from components.machine.process_ids import process_of, this_process
from flows.prefect_runtime.active_runs import (
    ActiveRun,
    end_active_runs,
    mark_dead_runs_crashed,
    read_recorded_processes,
    record_process,
    wait_for_earlier_start,
)
from tests.processes import alive

WORK = "import signal, time; {}; print('works', flush=True); time.sleep(600)"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is contacted here: the records are of another one than that of the environment."""
    monkeypatch.setenv("PREFECT_API_URL", "http://another/api")


def record(home: Path, name: str, process: psutil.Process, *, host: str) -> None:
    run = ActiveRun(
        flow_run_id=name, run_id=name, host=host, pid=process.pid, process=str(process_of(process.pid)),
        api_url="http://here/api", tracking_url=None, experiment="troupe",
    )  # fmt: skip
    (home / "runs").mkdir(exist_ok=True)
    (home / "runs" / f"{name}.json").write_text(run.model_dump_json())


def test_a_run_is_on_record_while_it_lives_and_until_it_is_told_of(tmp_path: Path) -> None:
    told: Any = {"run_count": 1, "api_url": "http://here/api", "tracking_url": "http://mlflow", "experiment": "troupe"}
    with record_process(tmp_path, flow_run_id="f", run_id="r", **told) as own:
        (run,) = read_recorded_processes(tmp_path)
        assert (run.run_id, run.is_alive, run.told_tracking) == ("r", True, False)
        shutil.copytree(tmp_path / "runs", tmp_path / "copy" / "runs")
        assert read_recorded_processes(tmp_path / "copy") == [], "a copy of a home has no run"
        own.is_published = lambda: True
    (run,) = read_recorded_processes(tmp_path)
    assert run.told_tracking
    assert (tmp_path / "runs").stat().st_mode & 0o077 == 0
    with pytest.raises(KeyboardInterrupt), record_process(tmp_path, flow_run_id="f", run_id="r", **told):
        raise KeyboardInterrupt
    (run,) = read_recorded_processes(tmp_path)
    assert not run.told_tracking


def test_records_that_are_damaged_or_of_another_server_or_host_hold_nobody_up(tmp_path: Path) -> None:
    assert read_recorded_processes(tmp_path) == []
    record(tmp_path, "elsewhere", psutil.Process(1), host="another-host")
    (tmp_path / "runs" / "damaged.json").write_text("{")
    assert [run.is_alive for run in read_recorded_processes(tmp_path)] == [True]
    assert mark_dead_runs_crashed(tmp_path) == []
    assert end_active_runs(tmp_path) == []


@pytest.mark.parametrize("habit", ["0", STUBBORN])
def test_a_living_run_is_ended_and_a_used_pid_is_left_alone(habit: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORK.format(habit)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline() == "works\n"
        record(tmp_path, "ours", psutil.Process(ours.pid), host=socket.gethostname())
        reused = read_recorded_processes(tmp_path)[0].model_copy(
            update={"flow_run_id": "old", "run_id": "old", "process": str(this_process()._replace(started=1))}
        )
        (tmp_path / "runs" / "old.json").write_text(reused.model_dump_json())
        assert [run.is_alive for run in read_recorded_processes(tmp_path)] == [False, True]
        assert end_active_runs(tmp_path, grace_seconds=1.0) == ["ours"]
        assert not alive(ours.pid)


def test_a_second_start_waits_for_the_process_of_the_first(tmp_path: Path) -> None:
    record(tmp_path, "f", psutil.Process(), host=socket.gethostname())
    record(tmp_path, "elsewhere", psutil.Process(1), host="another-host")
    for free in ("f", "elsewhere", "another"):
        wait_for_earlier_start(tmp_path, free)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as first:
        record(tmp_path, "f", psutil.Process(first.pid), host=socket.gethostname())
        waiting = threading.Thread(target=wait_for_earlier_start, args=(tmp_path, "f"), kwargs={"poll_seconds": 0.01})
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        first.communicate("\n")
        waiting.join(10)
        assert not waiting.is_alive()
