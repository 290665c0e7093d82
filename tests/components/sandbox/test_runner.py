"""Real programs in real boxes: every way to end, and nothing that passes from one program to the next."""

import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.sandbox.bubblewrap import open_bubblewrap
from components.sandbox.pool import BoxPool
from components.schema import ExecutionResult, Limits

SHORT = Limits(wall_seconds=1.0, cpu_seconds=5.0)
LITTLE_CPU = Limits(wall_seconds=20.0, cpu_seconds=0.3)
ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "HOME": "/tmp"}


@pytest.fixture(scope="module")
def one_box(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> Iterator[BoxPool]:
    """A pool in which every program follows the one before in the same box."""
    root, digest = rootfs
    pool = open_bubblewrap(root, num_boxes=1, image_digest=digest)
    yield pool
    pool.close()


def program(text: str) -> str:
    return textwrap.dedent(text).lstrip()


# -- How programs end ------------------------------------------------------------------------------------------------

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
    "a little too much output": ("output_limit", 0, "print('a' * 65536, end='z')", None),
    "just enough output": ("ok", 0, "print('a' * 65536, end='')", None),
    "many processes": ("process_limit", 1, "import os, time\nwhile os.fork(): pass\ntime.sleep(60)", None),
    "many threads": (
        "process_limit",
        1,
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        None,
    ),
    "fork bomb": ("process_limit", -9, "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", SHORT),
}


@pytest.mark.parametrize("name", ENDS)
def test_every_end_has_its_status(bubblewrap_pool: BoxPool, name: str) -> None:
    status, exit_code, source, limits = ENDS[name]
    result = bubblewrap_pool.run(source, limits=limits)
    assert (result.status, result.exit_code) == (status, exit_code), result
    assert max(len(result.stdout), len(result.stderr)) <= 65536
    assert bubblewrap_pool.run("print(6 * 7)").stdout == "42\n"


def test_the_kernel_ends_what_takes_too_much_memory_together(bubblewrap_pool: BoxPool) -> None:
    if "control groups" not in bubblewrap_pool.description.box_limits["kept by"]:
        pytest.skip("needs root: only control groups count the memory of a whole box")
    source = program("""
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


# -- A program runs as it would in Python itself ----------------------------------------------------------------------

PLAIN = [
    "print('hello'); print(input())",
    "import sys; sys.exit('a message')",
    "import sys; sys.exit(256 + 7)",
    "exit()",
    "raise SystemExit",
    "import atexit; atexit.register(print, 'last'); print('first')",
    "class C:\n  def __del__(self): print('gone')\nc = C()",
    "import threading, time\ndef f():\n  time.sleep(0.05)\n  print('late')\nthreading.Thread(target=f).start()",
    "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0",
    "import os, sys\nprint('twice')\nsys.stdout.flush()\nos.fork() and os.wait()\nprint(1)",
    "import sys; print(__name__, sys.argv[1:], __file__[-7:], sys.stdout.encoding, sys.stdin.errors)",
    "print(sorted(k for k in globals() if not k.startswith('__')))",
    "def f(n): return n and f(n - 1)\nf(10**5)",
    "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and f(n - 1) + 1\nprint(f(50000))",
    "import sys; sys.stdout.write(chr(0xdcff)); print(repr(sys.stdin.read()))",
    "import sys; print(sys.stdin.buffer.read()); sys.stdout.close()",
    "import subprocess; print(subprocess.check_output(['/usr/bin/python3', '-c', 'print(2)']))",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int = 1\nprint(P(), P.__module__)",
    "import asyncio\nasync def f(): print('async')\nasyncio.run(f())",
    "import pickle\nclass P: pass\nprint(type(pickle.loads(pickle.dumps(P()))) is P)",
    "print(hash('text'), {'b', 'a', 'c'})",
    "try:\n  raise ValueError\nexcept ValueError:\n  raise KeyError('k')",
    "if True print(1)",
    "import os; os._exit(5)",
]


@pytest.mark.parametrize("source", PLAIN)
def test_a_program_does_what_it_does_in_a_process_of_its_own(
    bubblewrap_pool: BoxPool, source: str, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(source)
    plain = subprocess.run(
        [sys.executable, "main.py"], input="in é\nput\n", capture_output=True, encoding="utf-8", errors="replace",
        cwd=tmp_path, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    result = bubblewrap_pool.run(source, stdin="in é\nput\n")
    assert (result.stdout, result.exit_code) == (plain.stdout, plain.returncode), result
    assert last_line(result.stderr) == last_line(plain.stderr)


def last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


@given(stdout=st.binary(max_size=300), stderr=st.binary(max_size=300), code=st.integers(0, 255))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_a_program_writes_is_what_is_read(
    bubblewrap_pool: BoxPool, stdout: bytes, stderr: bytes, code: int
) -> None:
    source = f"import os, sys\nsys.stdout.buffer.write({stdout!r})\nos.write(2, {stderr!r})\nsys.exit({code})"
    result = bubblewrap_pool.run(source)
    assert result.stdout == stdout.decode("utf-8", "replace")
    assert result.stderr == stderr.decode("utf-8", "replace")
    assert result.exit_code == code


@given(text=st.text(max_size=200))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_input_and_files_are_what_was_given(bubblewrap_pool: BoxPool, text: str) -> None:
    source = "import sys\nprint(ascii((sys.stdin.buffer.read(), open('a.txt', 'rb').read())))"
    result = bubblewrap_pool.run(source, stdin=text, files={"a.txt": text})
    assert result.stdout == ascii((text.encode(), text.encode())) + "\n"


@pytest.mark.parametrize("num_bytes", [1, 65535, 65536, 65537, 3 << 20])
def test_input_of_any_length_reaches_the_program(bubblewrap_pool: BoxPool, num_bytes: int) -> None:
    assert (
        bubblewrap_pool.run("import sys; print(len(sys.stdin.read()))", stdin="a" * num_bytes).stdout
        == f"{num_bytes}\n"
    )
    assert bubblewrap_pool.run("print('unread')", stdin="a" * num_bytes).stdout == "unread\n"
    assert bubblewrap_pool.run("import os; os.close(0); print('shut')", stdin="a" * num_bytes).stdout == "shut\n"


def test_output_of_a_process_that_is_left_behind_is_kept_until_the_program_ends(bubblewrap_pool: BoxPool) -> None:
    child = "if os.fork() == 0:\n  os.write(1, b'child ')\n  time.sleep(60)\n"
    source = f"import os, time\n{child}time.sleep(0.2)\nos.write(1, b'end')"
    result = bubblewrap_pool.run(source)
    assert (result.status, result.stdout) == ("ok", "child end")
    assert result.wall_seconds < 5


# -- Files ------------------------------------------------------------------------------------------------------------


def test_only_regular_files_within_the_limits_come_back(bubblewrap_pool: BoxPool) -> None:
    source = program("""
        import os
        open("good", "w").write("é")
        unclosed = open("unclosed", "w"); unclosed.write("written")
        open("given", "a").write(" and more")
        os.symlink("/etc/passwd", "link")
        os.mkfifo("fifo")
        os.mkdir("folder")
        os.truncate(os.open("sparse", os.O_CREAT | os.O_WRONLY), 30 << 20)
        os.link("good", "hard")
        open("locked", "w").write("x"); os.chmod("locked", 0)
    """)
    names = ("good", "unclosed", "given", "link", "fifo", "folder", "sparse", "hard", "absent", "locked")
    result = bubblewrap_pool.run(source, files={"given": "given"}, outputs=names)
    assert result.status == "ok", result
    assert result.files == {"good": "é", "unclosed": "written", "given": "given and more", "hard": "é"}
    assert result.detail == (
        "link: Too many levels of symbolic links; fifo: Not a regular file; folder: Not a regular file; "
        "sparse: Too large; absent: No such file or directory; locked: Permission denied"
    )


def test_files_together_are_limited_too(bubblewrap_pool: BoxPool) -> None:
    source = "for i in range(6): open(f'f{i}', 'w').write(str(i) * (1 << 20))"
    result = bubblewrap_pool.run(source, outputs=tuple(f"f{i}" for i in range(6)))
    assert {name: len(content) for name, content in result.files.items()} == {f"f{i}": 1 << 20 for i in range(4)}


# -- What a program cannot do -----------------------------------------------------------------------------------------


def test_a_program_changes_nothing_that_the_next_one_meets(one_box: BoxPool) -> None:
    look = program("""
        import os, resource, sys, time
        status = os.stat("/tmp")
        print(sorted(os.listdir("/tmp")), oct(status.st_mode), status.st_mtime, os.getcwd(), os.umask(0o22))
        print(sorted(os.environ), len(sys.modules), sys.path, hasattr(sys, "left"), "left" in sys.modules)
        print([resource.getrlimit(i) for i in range(16)], os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0))
        print([name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())])
        print(open("/proc/sysvipc/shm").read().count("\\n"), os.path.exists("/dev/shm"), os.path.exists("/dev/mqueue"))
    """)
    before = one_box.run(look)
    assert before.status == "ok", before
    mess = program("""
        import builtins, ctypes, os, resource, sys, types
        libc = ctypes.CDLL(None, use_errno=True)
        done = []
        def attempt(name, call):
            try:
                result = call()
                if not (type(result) is int and result < 0):
                    done.append(name)
            except OSError:
                pass
        os.mkdir("/tmp/folder"); open("/tmp/folder/file", "w").write("x"); os.chmod("/tmp/folder", 0)
        open("/tmp/json.py", "w").write("raise SystemExit(9)")
        os.environ["LEFT"] = os.environ["PATH"] = "left"; os.chdir("/"); os.umask(0)
        sys.left = 1; sys.modules["left"] = types.ModuleType("left"); builtins.print = None
        os.utime("/tmp", (1, 1)); os.chmod("/tmp", 0o000)
        attempt("limit of process 1", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (5, 5)))
        attempt("priority of process 1", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
        attempt("affinity of process 1", lambda: os.sched_setaffinity(1, {0}))
        attempt("scheduler of process 1", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
        attempt("oom score of process 1", lambda: open("/proc/1/oom_score_adj", "w"))
        attempt("memory of process 1", lambda: open("/proc/1/mem", "rb"))
        attempt("attribute", lambda: os.setxattr("/tmp", "user.left", b"x"))
        attempt("shared memory", lambda: libc.shmget(77, 4096, 0o1666))
        attempt("message queue", lambda: libc.msgget(77, 0o1666))
        attempt("semaphore", lambda: libc.semget(77, 1, 0o1666))
        attempt("posix queue", lambda: libc.mq_open(b"/left", 0o102, 0o666, None))
        attempt("key", lambda: libc.syscall(248, b"user", b"left", b"x", 1, -3))
        attempt("root file", lambda: open("/left", "w"))
        attempt("device file", lambda: open("/dev/left", "w"))
        for sig in (1, 2, 3, 10, 15, 19, 9):
            os.kill(1, sig)
        sys.stdout.write(str(done))
    """)
    assert one_box.run(mess).stdout == "[]"
    after = one_box.run(look)
    assert after.stdout == before.stdout
    assert one_box.num_replaced == 0


SEARCH = program("""
    import re
    wanted = re.compile(rb"needle" + rb"-[0-9]{12}-" + rb"in-a-haystack")
    found = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            start, end = (int(edge, 16) for edge in span.split("-"))
            if rights.startswith("r") and "[v" not in line:
                try:
                    memory.seek(start)
                    found |= set(wanted.findall(memory.read(end - start)))
                except OSError:
                    pass
    print(len(found))
""")


def needle(number: int) -> str:
    return f"needle-{number:012d}-in-a-haystack"


def test_a_program_finds_nothing_of_earlier_ones_in_its_memory(one_box: BoxPool) -> None:
    assert one_box.run(SEARCH + f"# {needle(1)}").stdout == "1\n", "the search finds what is there"
    replaced = one_box.num_replaced
    for size in (1, 30, 3000):
        one_box.run(
            f"import sys\nprint(sys.stdin.read(), '{needle(2) * size}')\nopen('o', 'w').write('{needle(3)}')\n"
            f"raise ValueError('{needle(4)}')",
            stdin=needle(5) * size,
            files={"f": needle(6) * size},
            outputs=("o", "f"),
        )
        assert one_box.run(SEARCH).stdout == "0\n"
    assert one_box.num_replaced - replaced <= 1, "only the one that wrote too much cost a box"


def test_nothing_can_be_executed_from_tmp_and_only_so_many_files_made(bubblewrap_pool: BoxPool) -> None:
    source = "import os, shutil\nshutil.copy('/usr/bin/python3', 'p'); os.chmod('p', 0o755); os.execv('p', ['p', '-V'])"
    assert "PermissionError" in bubblewrap_pool.run(source).stderr
    flood = bubblewrap_pool.run("for i in range(5000): open(str(i), 'w').close()")
    assert "No space left on device" in flood.stderr
    assert "File too large" in bubblewrap_pool.run("open('f', 'w').write('a' * (40 << 20))").stderr


# -- Many at once -----------------------------------------------------------------------------------------------------

HOSTILE = [ENDS[name][2] for name in ("sleeps", "much memory slowly", "much output", "many processes", "fork bomb")] + [
    "import os\nfor i in range(3000): os.mkdir('d'); os.chdir('d')",
    "import os\nfor _ in range(20):\n  if os.fork() == 0:\n    os.setsid()\n    os.fork()\n    while True: pass",
    "import os, signal\nos.kill(-1, signal.SIGKILL)",
]


def test_hostile_programs_change_no_answer_of_the_others(bubblewrap_pool: BoxPool) -> None:
    rng = random.Random(7)
    jobs: list[tuple[str, int | None]] = []
    for i in range(300):
        jobs.append((HOSTILE[i // 20 % len(HOSTILE)], None) if i % 20 == 19 else ("", rng.randrange(10**6)))

    def run(job: tuple[str, int | None]) -> ExecutionResult:
        hostile, number = job
        if number is None:
            return bubblewrap_pool.run(hostile, limits=Limits(wall_seconds=0.3, cpu_seconds=0.3))
        return bubblewrap_pool.run(
            "n = int(input())\nopen('f', 'w').write(str(n * n))\nprint(sum(range(n % 1000)))",
            stdin=str(number),
            outputs=("f",),
        )

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(run, jobs))
    for (_, number), result in zip(jobs, results, strict=True):
        assert result.status != "sandbox_error", result
        if number is not None:
            right = f"{sum(range(number % 1000))}\n"
            assert (result.status, result.stdout, result.files) == ("ok", right, {"f": str(number * number)}), result


def test_a_program_sees_one_environment(bubblewrap_pool: BoxPool) -> None:
    seen: Mapping[str, str] = eval(
        bubblewrap_pool.run("import os; print(dict(os.environ), os.getuid())").stdout.rpartition(" ")[0]
    )
    assert dict(seen) == {
        "HOME": "/tmp", "LANG": "C.UTF-8", "PATH": "/usr/bin", "PWD": "/tmp",
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
    }  # fmt: skip
    assert os.environ.get("PATH") not in seen.values()
