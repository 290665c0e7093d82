"""What forked workers share with started ones: where an update ends, what they are given, and how they end."""

import os
import time

import psutil
import pytest

from components.errors import WorkerDied
from components.training import launcher
from tests.forked_workers import Popen, forking, workers_of
from tests.processes import alive


def test_a_forked_worker_ends_where_a_started_one_does_and_is_found_and_ended_like_it(
    trainer, make_trainer, jobs, make_groups, forked_workers, monkeypatch
) -> None:
    job = jobs.first(make_groups(6))
    started = trainer.update(job)
    monkeypatch.setattr(launcher, "subprocess", forking(forked_workers))
    monkeypatch.setenv("CANARY_API_KEY", "canary")
    forked = make_trainer(job.training)
    again = job.model_copy(update={"output_folder": job.output_folder.with_name("forked")})
    assert forked.update(again) == started

    processes = forked._processes
    assert isinstance(processes.ranks[0], Popen)
    pid, folder = processes.ranks[0].pid, processes.folder
    shown = psutil.Process(pid).environ()
    assert (shown["TROUPE_RUN"], shown["OMP_NUM_THREADS"], shown["PATH"]) == ("tests", "1", os.environ["PATH"])
    assert "CANARY_API_KEY" not in shown
    assert [each.pid for each in workers_of(os.getpid())] == [pid]
    assert os.getsid(pid) == pid
    assert "is ready" in (folder / "worker.log").read_text()

    killed = psutil.Process(pid)
    killed.kill()
    killed.wait()
    with pytest.raises(
        WorkerDied, match="exit code -9"
    ):  # not asked by `update`, which may see the death and start another
        processes.ask(job, deadline=time.monotonic() + 60)
    replaced = job.model_copy(update={"output_folder": job.output_folder.with_name("replaced")})
    assert forked.update(replaced) == started
    pid = forked._processes.ranks[0].pid
    forked.close()
    assert not alive(pid)
    assert workers_of(os.getpid()) == []
