"""Every way in which a program can end, by real programs in real boxes."""

import os
import time
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from components.sandbox.attacks.pid1 import TAKE_BACK
from components.sandbox.bubblewrap import open_bubblewrap
from components.sandbox.job import Capture
from components.sandbox.pool import BoxPool
from components.schema import Limits

SHORT = Limits(wall_seconds=1.0, cpu_seconds=5.0)
BOMB = Limits(wall_seconds=2.0)
LITTLE_CPU = Limits(wall_seconds=60.0, cpu_seconds=0.3)

ENDS = {
    "ok": ("ok", 0, "print(1)", None),
    "exit": ("nonzero_exit", 3, "import sys; sys.exit(3)", None),
    "raise": ("nonzero_exit", 1, "1 / 0", None),
    "segfault": ("nonzero_exit", -11, "import ctypes; ctypes.string_at(0)", None),
    "kills itself": ("nonzero_exit", -9, "import os; os.kill(os.getpid(), 9)", None),
    "no text": ("nonzero_exit", 1, "print('\ud800') if True else \ud800", None),
    "nul": ("nonzero_exit", 1, "print(1)\0", None),
    "sleeps": ("wall_timeout", -9, "import time; time.sleep(60)", SHORT),
    "ignores signals": (
        "wall_timeout",
        -9,
        "import signal, time\nfor s in (2, 15, 24): signal.signal(s, lambda *_: None)\ntime.sleep(60)",
        SHORT,
    ),
    "spins": ("cpu_timeout", -9, "while True: pass", LITTLE_CPU),
    "spins in many": ("cpu_timeout", -9, "import os\nfor _ in range(3): os.fork()\nwhile True: pass", LITTLE_CPU),
    "much memory": ("memory", 1, "x = [0] * 10**9", None),
    "much memory slowly": ("memory", 1, "x = []\nwhile True: x.append(bytes(1 << 20))", None),
    "much output": ("output_limit", -9, "while True: print('a' * 999)", None),
    "much error output": ("output_limit", -9, "import sys\nwhile True: sys.stderr.write('a' * 999)", None),
    "a little too much output": ("output_limit", None, "print('a' * 65536, end='z')", None),
    "just enough output": ("ok", 0, "print('a' * 65536, end='')", None),
    "many processes": ("process_limit", 1, "import os, time\nwhile os.fork(): pass\ntime.sleep(60)", None),
    "many threads": (
        "process_limit",
        1,
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        None,
    ),
    "fork bomb": ("process_limit", -9, "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", BOMB),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_end_has_its_status(bubblewrap_pool: BoxPool, name: str) -> None:
    status, exit_code, source, limits = ENDS[name]
    result = bubblewrap_pool.run(source, limits=limits)
    assert result.status == status, result
    assert exit_code is None or result.exit_code == exit_code, result  # None: it depends on who is faster
    assert max(len(result.stdout), len(result.stderr)) <= 65536
    assert bubblewrap_pool.run("print(6 * 7)").stdout == "42\n"


def test_the_kernel_ends_what_takes_too_much_memory_together(bubblewrap_pool: BoxPool) -> None:
    if "control groups" not in bubblewrap_pool.description.box_limits["kept by"]:
        pytest.skip("needs root: only control groups count the memory of a whole box")
    source = dedent("""\
        import os, time
        for _ in range(5):
            if os.fork() == 0:
                held = b"a" * (100 << 20)
                time.sleep(60)
        assert os.wait()[1] == 0
    """)
    result = bubblewrap_pool.run(source)
    assert (result.status, result.exit_code) == ("memory", 1), result
    assert bubblewrap_pool.run("print(6 * 7)").stdout == "42\n"


UNWAITED = dedent("""\
    import os, signal, time
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    except PermissionError:
        pass
    for _ in range(20):
        if os.fork() == 0:
            while time.process_time() < 0.01:
                pass
            os._exit(0)
        try:
            os.wait()
        except ChildProcessError:
            pass
""")


@pytest.mark.parametrize("use_cgroups", [True, False])
def test_the_time_of_children_counts_whether_anybody_waits_for_them_or_not(
    rootfs: tuple[Path, str], bubblewrap_pool: BoxPool, use_cgroups: bool
) -> None:
    pool = open_bubblewrap(rootfs[0], num_boxes=1, image_digest=rootfs[1], use_cgroups=use_cgroups)
    try:
        result = pool.run(UNWAITED, limits=replace(LITTLE_CPU, cpu_seconds=4.0))
        assert result.status == "ok", result
        assert result.cpu_seconds >= 0.18
        result = pool.run(UNWAITED.replace("range(20)", "range(4000)"), limits=LITTLE_CPU)
        assert (result.status, result.exit_code) == ("cpu_timeout", -9), result
        assert result.cpu_seconds < 1.0
    finally:
        pool.close()


@pytest.mark.parametrize("name", ["output", "errors"])
def test_a_program_that_takes_its_output_back_is_ended_in_time(bubblewrap_pool: BoxPool, name: str) -> None:
    source = TAKE_BACK.format(handles={"output": (1, 2), "errors": (2, 1)}[name])
    started = time.monotonic()
    result = bubblewrap_pool.run(source, limits=Limits(wall_seconds=2.0, cpu_seconds=2.0))
    assert result.status in ("wall_timeout", "cpu_timeout"), result
    assert time.monotonic() - started < 10


def test_an_empty_pipe_is_neither_an_end_nor_a_wait() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    capture = Capture(10)
    assert capture.read(reader)
    os.write(writer, b"late")
    assert capture.read(reader)
    assert bytes(capture.content) == b"late"
    os.close(writer)
    assert not capture.read(reader)
    os.close(reader)
    capture.close()


def test_times_are_those_of_the_program(bubblewrap_pool: BoxPool) -> None:
    result = bubblewrap_pool.run("import time\ntime.sleep(0.3)\nwhile time.process_time() < 0.2: pass")
    assert 0.5 <= result.wall_seconds < 5
    assert 0.2 <= result.cpu_seconds < 1
