"""Every way in which a program can end, by real programs in real boxes."""

from textwrap import dedent

import pytest

from components.sandbox.pool import BoxPool
from components.schema import Limits

SHORT = Limits(wall_seconds=1.0, cpu_seconds=5.0)
BOMB = Limits(wall_seconds=2.0)
LITTLE_CPU = Limits(wall_seconds=20.0, cpu_seconds=0.3)

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


def test_times_are_those_of_the_program(bubblewrap_pool: BoxPool) -> None:
    result = bubblewrap_pool.run("import time\ntime.sleep(0.3)\nwhile time.process_time() < 0.2: pass")
    assert 0.5 <= result.wall_seconds < 5
    assert 0.2 <= result.cpu_seconds < 1
