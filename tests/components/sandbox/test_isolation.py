"""Nothing passes from one program to the next, whatever they try."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from components.sandbox.attacks import exit_reporting
from components.sandbox.bubblewrap import open_bubblewrap
from components.sandbox.pool import BoxPool
from components.schema import ExecutionResult, Limits


@pytest.fixture(scope="module")
def one_box(rootfs: tuple[Path, str], bubblewrap_pool: BoxPool) -> Iterator[BoxPool]:
    """A pool in which every program follows the one before in the same box."""
    root, digest = rootfs
    pool = open_bubblewrap(root, num_boxes=1, image_digest=digest)
    yield pool
    pool.close()


def test_a_program_changes_nothing_that_the_next_one_meets(one_box: BoxPool) -> None:
    look = dedent("""\
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
    mess = dedent("""\
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


SEARCH = dedent("""\
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


@pytest.mark.parametrize("use_cgroups", [True, False])
def test_names_that_a_program_chose_are_not_in_the_memory_of_the_next(
    rootfs: tuple[Path, str], bubblewrap_pool: BoxPool, use_cgroups: bool
) -> None:
    pool = open_bubblewrap(rootfs[0], num_boxes=1, image_digest=rootfs[1], use_cgroups=use_cgroups)
    name = dedent("""\
        import ctypes, os, time
        number = f"{2 * 3:012d}"
        for index in range(400):
            open(f"needle-{number}-in-a-haystack-{index}", "w").close()
        ctypes.CDLL(None).prctl(15, b"needle-%s" % number.encode(), 0, 0, 0)
        while time.process_time() < 0.5: pass
    """)
    try:
        assert pool.run(name).status == "ok"
        assert pool.run(SEARCH).stdout == "0\n"
        assert pool.num_replaced == 0
    finally:
        pool.close()


def test_folders_too_deep_for_a_path_cost_no_box(one_box: BoxPool) -> None:
    before = one_box.num_replaced
    deep = "import os\nfor _ in range(1900): os.mkdir('d' * 60); os.chdir('d' * 60)"
    assert one_box.run(deep).status == "ok"
    assert one_box.run("import os; print(os.listdir('/tmp'))").stdout == "[]\n"
    assert one_box.num_replaced == before


def test_a_program_that_fills_the_kernels_memory_runs_out_of_memory(bubblewrap_pool: BoxPool) -> None:
    if "control groups" not in bubblewrap_pool.description.box_limits["kept by"]:
        pytest.skip("needs root: only control groups count the kernel's memory")
    (attack,) = (each for each in exit_reporting.ATTACKS if each.name == "outlive-the-runner")
    (job,) = attack.jobs
    result = bubblewrap_pool.run(job.program, limits=Limits(wall_seconds=60.0, cpu_seconds=60.0, memory_mib=192))
    assert result.status == "memory", result
    assert bubblewrap_pool.run("print(6 * 7)").stdout == "42\n"


def test_a_box_in_which_sockets_hold_each_other_is_replaced(one_box: BoxPool) -> None:
    plain = "import socket\nkept = [socket.socketpair() for _ in range(3)]\nsocket.send_fds(kept[0][0], [b'x'], [0])"
    before = one_box.num_replaced
    assert one_box.run(plain).status == "ok"
    assert one_box.num_replaced == before
    cycle = plain + "\nfor end in kept[0]: socket.send_fds(end, [b'x'], [each.fileno() for each in kept[0]])"
    for _ in range(5):
        assert one_box.run(cycle).status == "ok"
        if one_box.num_replaced > before:
            break
        # Somebody else's sockets made the kernel look for such cycles just then: it has freed this one.
        assert one_box.run(plain).status == "ok"
    assert one_box.num_replaced == before + 1


def test_nothing_can_be_executed_from_tmp_and_only_so_many_files_made(bubblewrap_pool: BoxPool) -> None:
    source = "import os, shutil\nshutil.copy('/usr/bin/python3', 'p'); os.chmod('p', 0o755); os.execv('p', ['p', '-V'])"
    assert "PermissionError" in bubblewrap_pool.run(source).stderr
    flood = bubblewrap_pool.run("for i in range(5000): open(str(i), 'w').close()")
    assert "No space left on device" in flood.stderr
    assert "File too large" in bubblewrap_pool.run("open('f', 'w').write('a' * (40 << 20))").stderr


HOSTILE = [
    "import time; time.sleep(60)",
    "x = []\nwhile True: x.append(bytes(1 << 20))",
    "while True: print('a' * 999)",
    "import os, time\nwhile os.fork(): pass\ntime.sleep(60)",
    "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
    "import os\nfor i in range(3000): os.mkdir('d'); os.chdir('d')",
    "import os, time\nfor _ in range(20):\n  if os.fork() == 0:\n    os.setsid()\n    os.fork()\n    time.sleep(60)",
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
