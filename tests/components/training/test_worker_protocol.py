import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from components.config import TrainingConfig
from components.errors import ArtifactCorrupt, LogprobMismatch, UpdateFailed, WorkerDied
from components.machine.process_ids import process_of
from components.training.parent_watchdog import ORPHANED_EXIT_CODE
from components.training.worker_protocol import (
    Failure,
    Handover,
    error_of,
    read_failures,
    read_handover,
    report_failure,
    write_handover,
)


def _handover() -> Handover:
    return Handover(
        key=SecretStr("hidden"),
        owner_host="here",
        owner="kernel-1-25",
        training=TrainingConfig(num_ranks=2),
        deepspeed={"zero_optimization": {"stage": 0}},
        rendezvous="file:///nowhere",
    )


def test_a_handover_comes_back_and_only_its_owner_may_read_it(tmp_path) -> None:
    path = write_handover(tmp_path, _handover())
    assert read_handover(path) == _handover()
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_key_is_not_shown() -> None:
    assert "hidden" not in repr(_handover())
    assert "hidden" not in _handover().model_dump_json()


@pytest.mark.parametrize("error", [LogprobMismatch, ArtifactCorrupt])
def test_a_named_error_comes_back_as_itself(error) -> None:
    back = error_of(Failure(kind="named", name=error.__name__, message="why"))
    assert type(back) is error
    assert str(back) == "why"


def test_an_error_without_a_name_is_a_failed_update_and_a_lost_rank_is_a_death() -> None:
    failed = error_of(Failure(kind="update", name="ZeroDivisionError", message="where"))
    assert type(failed) is UpdateFailed
    assert str(failed) == "ZeroDivisionError: where"
    assert type(error_of(Failure(kind="lost_rank", name="RuntimeError", message="peer"))) is WorkerDied


def test_a_name_that_is_no_error_of_ours_is_refused() -> None:
    with pytest.raises(AssertionError, match="not in the error tree"):
        error_of(Failure(kind="named", name="SystemExit", message=""))


def test_reports_of_ranks_are_read_in_order(tmp_path) -> None:
    assert read_failures(tmp_path) == []
    failures = [Failure(kind="update", name="E", message=str(rank)) for rank in range(2)]
    for rank in (1, 0):
        report_failure(tmp_path, rank, failures[rank])
    assert read_failures(tmp_path) == failures


_CHILD = """
import sys
from pathlib import Path
from components.machine.process_ids import ProcessId
from components.training.parent_watchdog import exit_with_parent
exit_with_parent(ProcessId.parse(sys.argv[1]), folder=Path(sys.argv[2]))
print("watching", flush=True)
while True:
    pass
"""


def _exit_code_after_its_owners_end(program: str, folder: Path, *, timeout_seconds: float) -> int:
    """The exit code of a child that runs `program`, whose owner is killed once it watches it."""
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as owner:
        command = [sys.executable, "-c", program, str(process_of(owner.pid)), str(folder)]
        environment = {**os.environ, "PYTHONPATH": os.getcwd()}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
            assert child.stdout is not None
            child.stdout.readline()
            owner.kill()
            owner.wait()
            try:
                return child.wait(timeout=timeout_seconds)
            finally:
                child.kill()


def test_a_busy_process_ends_when_its_owner_does_and_takes_its_folder_along(tmp_path) -> None:
    folder = tmp_path / "folder"
    assert _exit_code_after_its_owners_end(_CHILD, folder, timeout_seconds=5) == ORPHANED_EXIT_CODE
    assert not folder.exists()


_STUCK_CHILD = """
import ctypes, shutil, sys, time
from pathlib import Path
from components.machine.process_ids import ProcessId
from components.training.parent_watchdog import exit_with_parent
folder, remove = Path(sys.argv[2]), shutil.rmtree
shutil.rmtree = lambda *given, **more: (remove(*given, **more), time.sleep(1))
exit_with_parent(ProcessId.parse(sys.argv[1]), folder=folder)
print("watching", flush=True)
while folder.exists():
    time.sleep(0.01)
ctypes.PyDLL(None).sleep(120)  # holds the interpreter, as torch does while it waits for the file of its rendezvous
"""


def test_a_process_that_waits_for_the_folder_of_its_dead_owner_ends_too(tmp_path) -> None:
    folder = tmp_path / "folder"
    assert _exit_code_after_its_owners_end(_STUCK_CHILD, folder, timeout_seconds=30) == -signal.SIGALRM
