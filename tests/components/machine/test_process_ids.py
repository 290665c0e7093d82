"""The identity of processes, and whether they still run."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from components.machine import process_ids
from components.machine.process_ids import ProcessId, may_run, process_of, this_process

SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")


def test_a_process_is_read_back_from_its_text() -> None:
    assert ProcessId.parse(str(this_process())) == this_process()


@pytest.mark.parametrize(
    "text",
    ["", "k", "k-1", "k-1-", "-1-2", "k--2", "k-+1-2", "k-\u00b2-1", "k-1-\u0663", "k-1_0-2", f"k-1-{'9' * 5000}"],
)
def test_other_text_names_nobody(text: str) -> None:
    assert ProcessId.parse(text) is None


def test_a_number_that_is_used_again_is_another_process() -> None:
    me = this_process()
    assert not me.is_gone()
    assert me._replace(started=me.started - 1).is_gone(), "one tick is another process: there is no tolerance"
    assert me._replace(pid=2**22 + 1).is_gone()


def test_setting_the_clock_makes_no_living_process_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_process()
    for hours in (-5, 5):
        monkeypatch.setattr(psutil, "boot_time", lambda shift=3600 * hours: time.time() + shift)
        monkeypatch.setattr(psutil.Process, "create_time", lambda self, shift=3600 * hours: time.time() + shift)
        assert not me.is_gone()
        assert may_run(socket.gethostname(), str(me))


def test_before_a_restart_of_the_machine_is_gone_and_what_another_namespace_holds_is_not() -> None:
    me = this_process()
    boot, _, namespace = me.kernel.partition(".")
    assert me._replace(kernel=f"{'0' * len(boot)}.{namespace}").is_gone()
    assert not me._replace(kernel=f"{boot}.1", started=1).is_gone()


def test_a_dead_process_and_a_zombie_are_gone() -> None:
    with subprocess.Popen(SLEEPER) as child:
        process = process_of(child.pid)
        assert not process.is_gone()
        child.kill()
        while not process.is_gone():
            time.sleep(0.01)
        assert child.returncode is None, "it is a zombie until it is collected"
    assert process.is_gone()
    with pytest.raises(ProcessLookupError):
        process_of(child.pid)


def test_a_record_of_another_host_is_never_taken_for_dead() -> None:
    here, me = socket.gethostname(), this_process()
    gone = me._replace(started=1)
    assert may_run("another-host", str(gone))
    assert not may_run(here, str(gone))


def test_a_process_that_the_system_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = Path("/proc/1/stat")
    reading = Path.read_text

    def hidden(path: Path, *arguments: str, **options: str) -> str:
        if path == stat:
            raise FileNotFoundError(path)  # as the mount option hidepid=2 has it
        return reading(path, *arguments, **options)

    init = process_of(1)
    monkeypatch.setattr(Path, "read_text", hidden)
    monkeypatch.setattr(os, "kill", lambda pid, number: (_ for _ in ()).throw(PermissionError))
    assert not init.is_gone()


def test_without_proc_the_start_that_the_system_stores_is_compared_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_ids.sys, "platform", "darwin")
    me = this_process()
    assert me.kernel.endswith(".darwin")
    assert me.started == round(psutil.Process().create_time() * 1e6)
    assert not me.is_gone()
    assert me._replace(started=me.started + 1).is_gone()
    assert ProcessId.parse(str(me)) == me
