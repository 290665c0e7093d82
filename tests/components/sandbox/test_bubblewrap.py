"""What bubblewrap boxes promise beside running programs: they end with their owner, and start or say why not."""

import contextlib
import ctypes
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from components.errors import SandboxUnavailable, ServiceMissing
from components.sandbox.box import BoxLimits
from components.sandbox.bubblewrap import open_bubblewrap
from components.sandbox.cgroups import find_cgroups, remove_leftovers
from components.sandbox.pool import BoxPool
from components.sandbox.users import RANGE, can_choose_users
from components.schema import Limits
from tests.processes import below, read_name, runs


def until(condition: Callable[[], object], *, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def boxes_of(pid: int) -> list[psutil.Process]:
    """The bubblewrap processes that a process started, and all below them."""
    started = [child for child in psutil.Process(pid).children() if read_name(child) == "bwrap"]
    return [process for box in started for process in (box, *below(box))]


def busy_runners(pid: int | None = None) -> list[psutil.Process]:
    """Processes 1 of a process's boxes that run a program now."""
    return [box for box in boxes_of(pid or os.getpid()) if read_name(box) == "python3" and below(box)]


@pytest.fixture
def pool(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> Iterator[BoxPool]:
    """One box of its own."""
    root, digest = rootfs
    pool = open_bubblewrap(root, num_boxes=1, image_digest=digest)
    yield pool
    pool.close()


def test_a_job_whose_box_is_killed_is_run_again_and_right(pool: BoxPool) -> None:
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.run, "import time\nprint('begin', flush=True)\ntime.sleep(1)\nprint(6 * 7)")
        until(busy_runners)
        [runner] = busy_runners()
        runner.kill()
        result = running.result(timeout=30)
    assert (result.status, result.stdout) == ("ok", "begin\n42\n")
    assert pool.num_replaced == 1


def test_closing_ends_the_job_in_flight_and_every_process(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> None:
    before = set(boxes_of(os.getpid()))
    pool = open_bubblewrap(rootfs[0], num_boxes=2, image_digest=rootfs[1])
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(pool.run, "import time; time.sleep(60)", limits=Limits(wall_seconds=60.0))
        until(busy_runners)
        mine = set(boxes_of(os.getpid())) - before
        started = time.monotonic()
        pool.close()
        with pytest.raises(SandboxUnavailable, match="closed"):
            running.result(timeout=5)
    assert time.monotonic() - started < 15
    assert not any(map(runs, mine))
    with pytest.raises(SandboxUnavailable, match="closed"):
        pool.run("print(1)")


def test_boxes_outlive_the_thread_that_opened_them(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> None:
    opened: list[BoxPool] = []
    opener = threading.Thread(
        target=lambda: opened.append(open_bubblewrap(rootfs[0], num_boxes=1, image_digest=rootfs[1]))
    )
    opener.start()
    opener.join()
    try:
        time.sleep(0.1)
        assert opened[0].run("print(6 * 7)").stdout == "42\n"
        assert opened[0].num_replaced == 0
    finally:
        opened[0].close()


OWNER = """
import sys, threading
from pathlib import Path
from components.sandbox.bubblewrap import open_bubblewrap
from components.schema import Limits

pool = open_bubblewrap(Path(sys.argv[1]), num_boxes=2, image_digest="d")
busy = threading.Thread(target=pool.run, args=("import time; time.sleep(600)",), kwargs={"limits": Limits(wall_seconds=600.0)})
busy.daemon = True
busy.start()
print(pool.run("print('ready')").stdout, flush=True)
threading.Event().wait() if sys.argv[2] == "wait" else None
"""


def owner(rootfs: Path, then: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(rootfs), then], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert process.stdout is not None
    return process


def test_boxes_end_with_their_owner_however_it_dies(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> None:
    with owner(rootfs[0], "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        until(lambda: busy_runners(process.pid))
        boxes = boxes_of(process.pid)
        assert len(boxes) == 5  # two of bubblewrap, two runners, and the busy one's program
        groups = _groups_of(process.pid)
        process.kill()
        process.wait()
        until(lambda: not any(map(runs, boxes)), seconds=10)
    if groups:
        assert len(groups) >= 2
        assert remove_leftovers() >= 2
    assert not _groups_of(process.pid)


def test_an_owner_that_just_ends_leaves_nothing(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> None:
    with owner(rootfs[0], "end") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert process.wait(timeout=20) == 0
    assert not _groups_of(process.pid)


def _groups_of(pid: int) -> list[Path]:
    """The control groups of one owner."""
    return [path for path in Path("/sys/fs/cgroup").glob("**/troupe/*") if f"-{pid}-" in path.name]


def test_without_control_groups_the_description_says_so_and_processes_are_still_counted(
    rootfs: tuple[Path, str], bubblewrap_pool: BoxPool
) -> None:
    pool = open_bubblewrap(rootfs[0], num_boxes=1, image_digest=rootfs[1], use_cgroups=False)
    try:
        words = pool.description.box_limits
        assert words["kept by"] == "resource limits"
        assert words["memory"].startswith("none for a box")
        assert words["processes"] == "64"
        source = "import os, time\nn = 0\ntry:\n  while os.fork(): n += 1\n  time.sleep(60)\nexcept OSError: print(n)"
        assert 55 <= int(pool.run(source).stdout) <= 63
        assert pool.run(source.replace("except OSError: print(n)", "finally: pass")).status == "process_limit"
    finally:
        pool.close()


def test_the_description_tells_the_limits_in_force(bubblewrap_pool: BoxPool, rootfs: tuple[Path, str]) -> None:
    description = bubblewrap_pool.description
    assert (description.backend, description.num_boxes, description.image_digest) == ("bubblewrap", 2, rootfs[1])
    if find_cgroups() is not None:
        assert description.box_limits == {
            **BoxLimits().in_words(), "user": "one of its own", "root files": "its own",
            "kept by": description.box_limits["kept by"],
        }  # fmt: skip


def test_a_missing_program_is_named_with_the_command_that_installs_it(rootfs: tuple[Path, str]) -> None:
    with pytest.raises(ServiceMissing, match="apt-get install -y bubblewrap"):
        open_bubblewrap(rootfs[0], num_boxes=1, image_digest="d", bwrap="no-such-bwrap")


def failing_bwrap(folder: Path, says: str) -> str:
    """A program that says something and fails, where the user of the boxes can run it."""
    folder.chmod(0o755)
    script = folder / "bwrap"
    script.write_text(f"#!/bin/sh\necho 'bwrap: {says}' >&2\nexit 1\n")
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody reaches, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_refused_namespaces_are_told_with_a_remedy(rootfs: tuple[Path, str], open_folder: Path) -> None:
    bwrap = failing_bwrap(open_folder, "No permissions to create a new namespace, likely because ...")
    with pytest.raises(ServiceMissing, match=r"may not make user namespaces.*(sysctl|seccomp=unconfined)"):
        open_bubblewrap(rootfs[0], num_boxes=1, image_digest="d", bwrap=bwrap)


def test_a_bubblewrap_that_fails_is_quoted(rootfs: tuple[Path, str], open_folder: Path) -> None:
    bwrap = failing_bwrap(open_folder, "the disk is full")
    with pytest.raises(SandboxUnavailable, match="the disk is full"):
        open_bubblewrap(rootfs[0], num_boxes=1, image_digest="d", bwrap=bwrap, start_timeout_seconds=5.0)


def test_a_root_file_system_without_a_runner_starts_no_box(tmp_path: Path, bubblewrap_pool: BoxPool) -> None:
    for name in ("proc", "dev", "sys", "tmp"):
        (tmp_path / name).mkdir()
    tmp_path.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match="python3"):
        open_bubblewrap(tmp_path, num_boxes=1, image_digest="d", start_timeout_seconds=5.0)


def test_closing_is_quick_and_may_be_done_twice(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> None:
    pool = open_bubblewrap(rootfs[0], num_boxes=2, image_digest=rootfs[1])
    started = time.monotonic()
    pool.close()
    pool.close()
    assert time.monotonic() - started < 3


def test_each_box_runs_as_a_user_of_its_own_and_programs_see_the_same_one(
    rootfs: tuple[Path, str], bubblewrap_pool: BoxPool
) -> None:
    if not can_choose_users():
        pytest.skip("needs root")
    pool = open_bubblewrap(rootfs[0], num_boxes=3, image_digest=rootfs[1])
    try:
        until(lambda: len([box for box in boxes_of(os.getpid()) if read_name(box) == "python3"]) >= 3)
        uids = {box.uids().real for box in boxes_of(os.getpid()) if read_name(box) == "python3"}
        assert len(uids) >= 3
        assert all(uid in RANGE for uid in uids)
        assert pool.run("import getpass, os; print(os.getuid(), getpass.getuser())").stdout == "65534 nobody\n"
        assert pool.description.box_limits["user"] == "one of its own"
    finally:
        pool.close()


def test_tables_of_the_whole_machine_are_covered(pool: BoxPool) -> None:
    source = "try: print(open('/proc/{}').read(9))\nexcept OSError: print('covered')"
    for name in ("locks", "interrupts", "diskstats"):
        assert pool.run(source.format(name)).stdout == "covered\n"
    assert pool.run(
        "print(len(open('/proc/meminfo').read()) > 100, len(open('/proc/self/stat').read()) > 50)"
    ).stdout == ("True True\n")


def test_boxes_are_in_no_session_of_a_terminal(pool: BoxPool) -> None:
    sessions = {os.getsid(box.pid) for box in boxes_of(os.getpid())}
    assert len(sessions) >= 2
    assert os.getsid(0) not in sessions


@pytest.mark.skipif(platform.machine() != "x86_64", reason="spells system calls as this processor does")
def test_what_the_driver_ignores_is_heard_in_its_boxes(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> None:
    program = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn'))])"
    usual = bubblewrap_pool.run(program).stdout
    rt_sigaction, of_the_c_library = 13, 32
    before, ignored = bytearray(32), (1).to_bytes(8, "little") + bytes(24)
    libc = ctypes.CDLL(None)
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGUSR1)}
    old = (ctypes.c_char * 32).from_buffer(before)
    libc.syscall(rt_sigaction, of_the_c_library, ignored, old, 8)
    try:
        with contextlib.closing(open_bubblewrap(rootfs[0], num_boxes=1, image_digest=rootfs[1])) as pool:
            assert pool.run(program).stdout == usual == "['0000000000000000', '0000000001001000']\n"
            assert pool.run("import os\nos.kill(os.getpid(), 1)").exit_code == -signal.SIGHUP
    finally:
        libc.syscall(rt_sigaction, of_the_c_library, bytes(before), None, 8)
        for number, handler in handlers.items():
            signal.signal(number, handler)
