"""Attacks that use up a resource: processes, memory, CPU time, wall time, output, file handles."""

from components.sandbox.attacks.base import SHORT
from components.sandbox.attacks.grading import ENDED, GRACE_SECONDS, comes_back, expect_ended, expect_undisturbed
from components.sandbox.attacks.kinds import at_once, attack, attempts_in, probe
from components.schema import ExecutionResult, Limits

BUSY = Limits(wall_seconds=1.0, cpu_seconds=1.0, memory_mib=128)
BRIEF = Limits(wall_seconds=0.5, cpu_seconds=1.0, memory_mib=128)
ONE_CPU_SECOND = Limits(wall_seconds=15.0, cpu_seconds=1.0, memory_mib=128)
ROOMY = Limits(wall_seconds=4.0, cpu_seconds=4.0, memory_mib=128)
MOST_PROCESSES = 200
MOST_CPUS = 1.4
"""CPU seconds per second that a box may use: it has one CPU, and readings are coarse."""

FLOOD = """
import os
while True:
    os.write({handle}, b"A" * 65536)
"""

ORDINARY_WORK = """
import subprocess, tempfile, threading
time.sleep(0.5)
attempt("pipe", os.pipe)
attempt("file", lambda: tempfile.NamedTemporaryFile().write(b"x"))
def thread():
    worker = threading.Thread(target=time.sleep, args=(0,))
    worker.start()
    worker.join()
attempt("thread", thread)
attempt("process", lambda: os.waitpid(fork(lambda: None), 0))
attempt("socket pair", socket.socketpair)
import select
attempt("epoll", select.epoll)
"""


def _is_cut(result: ExecutionResult) -> bool:
    """Whether the output was cut at its limit, and its program ended early."""
    longest = max(len(result.stdout.encode()), len(result.stderr.encode()))
    is_early = result.wall_seconds <= SHORT.wall_seconds
    return result.status == "output_limit" and longest <= SHORT.output_kib * 1024 and is_early


OUTPUT_CUT = comes_back(_is_cut)
FAILED_ALONE = comes_back(lambda result: result.status not in ("ok", "sandbox_error"))
"""The program failed, and not the sandbox."""

ATTACKS = (
    attack(
        "fork-bomb",
        "fork without end",
        """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        expect_ended(within_seconds=1.0 + GRACE_SECONDS),
        limits=BUSY,
    ),
    probe(
        "many-processes",
        f"run {MOST_PROCESSES} processes at once",
        """
children = []
def fork_many():
    for _ in range(MOST):
        children.append(fork(lambda: time.sleep(9)))
    return MOST
attempt("many processes", fork_many)
notice("processes", "", f"{len(children)} at once")
""",
        ended=ENDED,
        MOST=MOST_PROCESSES,
    ),
    probe(
        "thread-bomb",
        "run 2000 threads at once",
        """
import threading
started = 0
def start_many():
    global started
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
        started += 1
attempt("2000 threads", start_many)
notice("threads", "", f"{started} at once")
tell()
os._exit(0)
""",
        ended=ENDED,
    ),
    probe(
        "memory-bomb",
        "take 1 GiB of memory",
        """
blocks = []
def fill():
    for _ in range(64):
        blocks.append(b"x" * (16 << 20))
attempt("1 GiB", fill)
size, blocks = 16 * len(blocks), []
notice("memory", "", f"{size} MiB at most")
""",
        ended=ENDED,
    ),
    probe(
        "memory-bomb-8-processes",
        "take 480 MiB in 8 processes, each within its own limit",
        """
reader, writer = os.pipe()
def hold():
    block = b"x" * (60 << 20)
    os.write(writer, b"1")
    time.sleep(9)
children = [fork(hold) for _ in range(8)]
os.set_blocking(reader, False)
end, told = time.monotonic() + 1.5, 0
while told < 8 and time.monotonic() < end:
    try:
        told += len(os.read(reader, 8))
    except BlockingIOError:
        time.sleep(0.02)
alive = sum(os.waitpid(child, os.WNOHANG)[0] == 0 for child in children)
held = min(told, alive) * 60
notice("480 MiB in 8 processes", "held" if held >= 480 else "", f"{held} MiB held at once")
""",
        ended=ENDED,
        limits=ROOMY,
    ),
    probe(
        "kernel-memory",
        "fill the kernel's memory with data that lies in sockets",
        """
def hold():
    held = []
    while True:
        try:
            one, other = socket.socketpair()
            one.setblocking(False)
            while True:
                try:
                    one.send(b"x" * 65536)
                except BlockingIOError:
                    break
            held.append((one, other))
        except OSError:
            time.sleep(0.05)
children = [fork(hold) for _ in range(30)]
time.sleep(1.0)
alive = sum(os.waitpid(child, os.WNOHANG)[0] == 0 for child in children)
notice("memory of the kernel", "", f"{alive} of 30 processes lived through it")
""",
        ended=ENDED,
        limits=ROOMY,
    ),
    attack(
        "endless-loop",
        "use the processor without end",
        "while True: pass",
        expect_ended("cpu_timeout", within_seconds=ONE_CPU_SECOND.wall_seconds),
        limits=ONE_CPU_SECOND,
    ),
    attack(
        "ignore-cpu-limit",
        "use the processor without end and ignore the signal of its limit",
        """
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True:
    pass
""",
        expect_ended("cpu_timeout", "wall_timeout", within_seconds=ONE_CPU_SECOND.wall_seconds + GRACE_SECONDS),
        limits=ONE_CPU_SECOND,
    ),
    attack(
        "orphans-at-work",
        "use the processor in orphans, while the program itself sleeps",
        """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                pass
        os._exit(0)
time.sleep(60)
""",
        expect_ended("cpu_timeout", within_seconds=ONE_CPU_SECOND.wall_seconds - 1.0),
        limits=ONE_CPU_SECOND,
    ),
    attack(
        "relay",
        "use the processor in a chain of short-lived orphans",
        """
import os, time
if os.fork() == 0:
    os.setsid()
    while True:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        try:
            if os.fork():
                os._exit(0)
        except OSError:
            pass
time.sleep(60)
""",
        # By the CPU time of all its orphans: where cores are shared, a chain of many takes its second in any wall time.
        expect_ended(
            "cpu_timeout", "process_limit", within_seconds=ONE_CPU_SECOND.wall_seconds - 1.0, within_cpu_seconds=2.0
        ),
        limits=ONE_CPU_SECOND,
    ),
    attack(
        "unwaited-children",
        "use the processor in short-lived children whose end is ignored, so that nobody is told what they used",
        """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.015
        while time.process_time() < end:
            pass
        os._exit(0)
    time.sleep(0.001)
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        pass
""",
        expect_ended(
            "cpu_timeout", "nonzero_exit", within_seconds=ONE_CPU_SECOND.wall_seconds - 1.0, within_cpu_seconds=2.0
        ),
        limits=ONE_CPU_SECOND,
    ),
    attack(
        "ignore-signals",
        "sleep without end and ignore every signal that can be ignored",
        """
import signal, time
for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(1)
""",
        expect_ended("wall_timeout", within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        limits=BRIEF,
    ),
    attack(
        "stop-itself",
        "stop itself and its process group, so that waiting for it takes for ever",
        "import os, signal\nos.kill(0, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
        expect_ended("wall_timeout", within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        limits=BRIEF,
    ),
    probe(
        "busy-processes",
        "use more than one processor with 4 busy processes",
        """
began = time.monotonic()
def work():
    while time.monotonic() - began < 0.9:
        pass
children = [fork(work) for _ in range(4)]
used = sum(sum(os.wait3(0)[2][:2]) for _ in children)
rate = used / (time.monotonic() - began)
notice("more than one processor", f"{rate:.2f}" if rate > MOST_CPUS else "", f"{rate:.2f} processors used")
""",
        ended=ENDED,
        MOST_CPUS=MOST_CPUS,
    ),
    attack(
        "deep-recursion",
        "recurse without end in Python",
        """
import sys
sys.setrecursionlimit(10**9)
def deeper():
    deeper()
deeper()
""",
        FAILED_ALONE,
        limits=ONE_CPU_SECOND,
    ),
    attack(
        "deep-recursion-in-c",
        "recurse until the C stack ends",
        """
import sys
sys.setrecursionlimit(10**9)
nested = []
for _ in range(10**6):
    nested = [nested]
print(len(repr(nested)))
""",
        FAILED_ALONE,
        limits=ONE_CPU_SECOND,
    ),
    attack("segfault", "crash the interpreter", "import ctypes\nctypes.string_at(0)", FAILED_ALONE),
    attack(
        "kill-itself",
        "look like a program that ran out of memory",
        "import os\nos.kill(os.getpid(), 9)",
        FAILED_ALONE,
    ),
    attack("stdout-flood", "write to standard output without end", FLOOD.format(handle=1), OUTPUT_CUT),
    attack("stderr-flood", "write to standard error without end", FLOOD.format(handle=2), OUTPUT_CUT),
    attack(
        "flood-by-children",
        "leave children that write without end, and exit",
        """
import os
for _ in range(6):
    if os.fork() == 0:
        while True:
            os.write(1, b"A" * 65536)
""",
        OUTPUT_CUT,
    ),
    probe(
        "open-files",
        "open 20000 files",
        """
handles = []
def open_many():
    for _ in range(20000):
        handles.append(os.open("/dev/null", os.O_RDONLY))
attempt("20000 open files", open_many)
count = len(handles)
for handle in handles:
    os.close(handle)
notice("open files", "", f"{count} at once")
""",
    ),
    at_once(
        "starve-the-neighbour",
        "use up the kernel's objects that all boxes share (inotify, epoll, pipes) while another program works",
        """
import select
def exhaust():
    for make in (lambda: call(294, 26, 0), select.epoll, os.pipe):
        held = []
        outcome(lambda: held.extend(make() for _ in range(20000)))
    time.sleep(0.9)
for child in [fork(exhaust) for _ in range(16)]:
    os.waitpid(child, 0)
notice("done", "", "tried")
""",
        ORDINARY_WORK,
        judge=expect_undisturbed(*attempts_in(ORDINARY_WORK)),
    ),
)
