"""Ranks on several hosts, with an `ssh` that runs its command here, in a session of its own as on another machine."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from components.config import TrainingConfig
from components.errors import ConfigurationError, WorkerDied
from components.training import launcher
from components.training.worker_protocol import HANDOVER_FILE, read_handover
from tests.forked_workers import forking

pytestmark = pytest.mark.slow
SSH = """#!/bin/bash
while [ "$1" != elsewhere ]; do shift; done
cat | setsid --wait bash -c "$2"
"""


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingConfig:
    """Two ranks on two hosts."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(SSH)
    (tmp_path / "bin" / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "hosts").write_text("127.0.0.2 slots=1\nelsewhere slots=1\n")
    return TrainingConfig(
        hostfile=str(tmp_path / "hosts"), num_ranks=2, zero_stage=2, learning_rate=1e-2, tokens_per_micro_batch=256
    )


def _workers_elsewhere(folder: Path) -> list[psutil.Process]:
    """The processes on the other host that know of `folder`."""
    wanted = {"--exit_with_stdin", f"--handover={folder / HANDOVER_FILE}"}
    return [p for p in psutil.process_iter(["cmdline"]) if wanted <= set(p.info["cmdline"] or [])]


def _wait_until_none(folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _workers_elsewhere(folder):
        assert time.monotonic() < deadline, "processes elsewhere were left behind"
        time.sleep(0.1)


def test_two_hosts_end_where_two_ranks_of_one_do_and_a_lost_connection_ends_the_other_host(
    make_trainer: Any, jobs: Any, make_groups: Any, training: Any, forked_workers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So do the forked ranks of other tests."""
    together = training.model_copy(update={"hostfile": None})
    results = []
    for each, is_forked in ((together, False), (training, False), (together, True)):
        if is_forked:
            monkeypatch.setattr(launcher, "subprocess", forking(forked_workers))
        trainer = make_trainer(each)
        try:
            job = jobs.first(make_groups(6), training=each)
            results.append(trainer.update(job))
            folder = trainer._processes.folder
            if each is training:
                assert _workers_elsewhere(folder)
                connection = trainer._processes.elsewhere["elsewhere"]
                os.killpg(connection.pid, signal.SIGKILL)
                _wait_until_none(folder, 5.0)
                assert not trainer._processes.alive
        finally:
            trainer.close()
        _wait_until_none(folder, 5.0)
    assert results[0] == results[1] == results[2]


def test_a_host_that_cannot_be_reached_is_named_at_once(
    make_trainer: Any, jobs: Any, make_groups: Any, training: Any, tmp_path: Path
) -> None:
    (tmp_path / "bin" / "ssh").write_text(
        "#!/bin/bash\necho 'ssh: connect to host elsewhere: No route to host'\nexit 255\n"
    )
    trainer = make_trainer(training)
    start = time.monotonic()
    with pytest.raises(
        WorkerDied, match=r"(?s)the ranks on elsewhere ended, or could not be started.*No route to host"
    ):
        trainer.update(jobs.first(make_groups(2), training=training))
    assert time.monotonic() - start < 20.0
    assert trainer._processes is None


def test_a_host_that_does_not_see_the_handover_says_what_to_share(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*; let TMPDIR name a folder that all hosts share"):
        read_handover(tmp_path / "handover.json")
