"""The rule by which a program's end becomes a status."""

from typing import Any

import pytest

from components.sandbox.status import Ending, status_of

WELL = Ending(cut="", exit_code=0, cpu_seconds=0.1, num_stragglers=0, refused=False, out_of_memory=False)


def replace(end: Ending, **changes: Any) -> Ending:
    return Ending(**{**end.model_dump(), **changes})


FAILED = replace(WELL, exit_code=1)
TRACEBACK = 'Traceback (most recent call last):\n  File "main.py", line 1, in <module>\n'


@pytest.mark.parametrize(
    ("end", "stderr", "status"),
    [
        (WELL, "", "ok"),
        (replace(WELL, refused=True, out_of_memory=True), "MemoryError\n", "ok"),
        (replace(WELL, num_stragglers=5), "", "ok"),
        (FAILED, "", "nonzero_exit"),
        (replace(WELL, exit_code=-11), "", "nonzero_exit"),
        (FAILED, "MemoryError\nValueError: no\n", "nonzero_exit"),
        (FAILED, TRACEBACK + "MemoryError\n", "memory"),
        (FAILED, TRACEBACK + "OSError: [Errno 12] Cannot allocate memory\n", "memory"),
        (replace(WELL, exit_code=-9, out_of_memory=True), "", "memory"),
        (FAILED, TRACEBACK + "BlockingIOError: [Errno 11] Resource temporarily unavailable\n", "process_limit"),
        (FAILED, TRACEBACK + "RuntimeError: can't start new thread\n", "process_limit"),
        (replace(FAILED, refused=True, out_of_memory=True), "", "process_limit"),
        (replace(WELL, cut="wall", exit_code=-9, refused=True), "", "process_limit"),
        (replace(WELL, cut="wall", exit_code=-9), "", "wall_timeout"),
        (replace(WELL, cut="wall", exit_code=0), "", "wall_timeout"),
        (replace(WELL, cut="cpu", exit_code=-9), "", "cpu_timeout"),
        (replace(WELL, cpu_seconds=1.01), "", "cpu_timeout"),
        (replace(WELL, cut="wall", exit_code=-9, cpu_seconds=1.01), "", "cpu_timeout"),
        (replace(WELL, cut="output", exit_code=-9, refused=True, cpu_seconds=2.0), "MemoryError", "output_limit"),
    ],
)
def test_the_first_limit_that_a_failed_program_met_is_its_status(end: Ending, stderr: str, status: str) -> None:
    found, detail = status_of(end, cpu_limit_seconds=1.0, stderr=stderr)
    assert found == status
    assert bool(detail) == (status != "ok")
    assert "\n" not in detail
