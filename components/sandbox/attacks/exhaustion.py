"""Attacks that use up: processes, memory, processor time, time, output, handles."""

import signal
from collections.abc import Sequence

from components.sandbox.attacks.base import SHORT, Attack, Judge, Verdict, ending, probing, report
from components.sandbox.attacks.judges import ENDED, GRACE_SECONDS, all_refused, ended, judged_by, refused
from components.schema import Execution, ExecutionResult, Limits

THEME = "exhaustion"
BUSY = Limits(wall_seconds=1.0, cpu_seconds=1.0, memory_mib=128)
BRIEF = Limits(wall_seconds=0.5, cpu_seconds=1.0, memory_mib=128)
ONE_CPU_SECOND = Limits(wall_seconds=15.0, cpu_seconds=1.0, memory_mib=128)
ROOMY = Limits(wall_seconds=4.0, cpu_seconds=4.0, memory_mib=128)
MOST_PROCESSES = 200
MOST_CPUS = 1.4
"""Processor seconds a second that a box may use: it has one, and readings are coarse."""

FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""

COUNT_PROCESSES = """
children = []
def fork():
    child = os.fork()
    if child == 0:
        time.sleep(9)
        os._exit(0)
    children.append(child)
def fork_many():
    for _ in range(MOST):
        fork()
    return MOST
attempt("many processes", fork_many)
notice("processes", "", f"{len(children)} at once")
"""

THREAD_BOMB = """
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
"""

MEMORY_BOMB = """
blocks = []
def fill():
    for _ in range(64):
        blocks.append(b"x" * (16 << 20))
attempt("1 GiB", fill)
size, blocks = 16 * len(blocks), []
notice("memory", "", f"{size} MiB at most")
"""

MEMORY_BOMBS = """
reader, writer = os.pipe()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        block = b"x" * (60 << 20)
        os.write(writer, b"1")
        time.sleep(9)
        os._exit(0)
    children.append(child)
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
"""

IGNORE_SIGNALS = """
import signal, time
for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(1)
"""

IGNORE_CPU_LIMIT = """
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True:
    pass
"""

RECURSION = """
import sys
sys.setrecursionlimit(10**9)
def deeper():
    deeper()
deeper()
"""

RECURSION_IN_C = """
import sys
sys.setrecursionlimit(10**9)
nested = []
for _ in range(10**6):
    nested = [nested]
print(len(repr(nested)))
"""

BUSY_PROCESSES = """
began = time.monotonic()
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        while time.monotonic() - began < 0.9:
            pass
        os._exit(0)
    children.append(child)
used = sum(sum(os.wait3(0)[2][:2]) for _ in children)
rate = used / (time.monotonic() - began)
notice("more than one processor", f"{rate:.2f}" if rate > MOST_CPUS else "", f"{rate:.2f} processors used")
"""

ORPHANS_AT_WORK = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                pass
        os._exit(0)
time.sleep(60)
"""

RELAY = """
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
"""

UNWAITED = """
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
"""
"""Children of a parent that ignores their end leave no record of their time, neither with it nor with anybody."""

KERNEL_MEMORY = """
import resource, select
children = []
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
for _ in range(30):
    child = os.fork()
    if child == 0:
        hold()
    children.append(child)
time.sleep(1.0)
alive = sum(os.waitpid(child, os.WNOHANG)[0] == 0 for child in children)
notice("memory of the kernel", "", f"{alive} of 30 processes lived through it")
"""

FLOOD = """
import os
while True:
    os.write({handle}, b"A" * 65536)
"""

FLOOD_BY_CHILDREN = """
import os
for _ in range(6):
    if os.fork() == 0:
        while True:
            os.write(1, b"A" * 65536)
"""

HANDLES = """
handles = []
def open_many():
    for _ in range(20000):
        handles.append(os.open("/dev/null", os.O_RDONLY))
attempt("20000 open files", open_many)
count = len(handles)
for handle in handles:
    os.close(handle)
notice("open files", "", f"{count} at once")
"""

KERNEL_OBJECTS = """
import select
def exhaust(make):
    def run():
        held = []
        while len(held) < 20000:
            held.append(make())
    return run
children = []
for _ in range(16):
    child = os.fork()
    if child == 0:
        for make in (lambda: syscall({"x86_64": 294, "aarch64": 26}[os.uname().machine], 0), select.epoll, os.pipe):
            try:
                exhaust(make)()
            except OSError:
                pass
        time.sleep(0.9)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
notice("done", "", "tried")
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
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)
attempt("process", fork)
attempt("socket pair", socket.socketpair)
import select
attempt("epoll", select.epoll)
"""


def _undisturbed(results: Sequence[ExecutionResult]) -> Verdict:
    """The neighbour could do all that an ordinary program does, in ordinary time."""
    hog, neighbour = results
    told = report(neighbour)
    if told is None or neighbour.status != "ok":
        return Verdict(stopped=False, by=f"the neighbour: {ending(neighbour)}")
    if told.refused:
        return Verdict(stopped=False, by=f"the neighbour was refused {', '.join(told.refused)}")
    return Verdict(
        stopped=True, by=f"the neighbour did all its work in {neighbour.wall_seconds:.1f} s; hog {ending(hog)}"
    )


def _output_cut(result: ExecutionResult) -> Verdict:
    """The flood was cut at the limit and its program ended early."""
    limit = SHORT.output_kib * 1024
    longest = max(len(result.stdout.encode()), len(result.stderr.encode()))
    held = result.status == "output_limit" and longest <= limit and result.wall_seconds <= SHORT.wall_seconds
    return Verdict(stopped=held, by=f"{longest} bytes kept, {ending(result)}")


def _failed_alone(result: ExecutionResult) -> Verdict:
    """The program's end is told as its own, not as a failure of the sandbox."""
    return Verdict(stopped=result.status not in ("ok", "sandbox_error"), by=ending(result))


def _counted(*names: str) -> Judge:
    """A limit was met, or the program was ended while it tried."""

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        (result,) = results
        told = report(result)
        if told is not None:
            return all_refused(told, names)
        return Verdict(stopped=result.status in ENDED, by=ending(result))

    return judge


def _attack(name: str, tries: str, program: str, judge: Judge, limits: Limits = SHORT) -> Attack:
    return Attack(name=name, theme=THEME, tries=tries, jobs=(Execution(program=program, limits=limits),), judge=judge)


ATTACKS = (
    _attack("fork-bomb", "fork without end", FORK_BOMB, ended(within_seconds=1.0 + GRACE_SECONDS), BUSY),
    _attack(
        "many-processes",
        f"run {MOST_PROCESSES} processes at once",
        probing(COUNT_PROCESSES, MOST=MOST_PROCESSES),
        _counted("many processes", "processes"),
    ),
    _attack("thread-bomb", "run 2000 threads at once", probing(THREAD_BOMB), _counted("2000 threads", "threads")),
    _attack("memory-bomb", "take 1 GiB of memory", probing(MEMORY_BOMB), _counted("1 GiB", "memory")),
    _attack(
        "memory-bomb-8-processes",
        "take 480 MiB in 8 processes, each within its own limit",
        probing(MEMORY_BOMBS),
        _counted("480 MiB in 8 processes"),
        ROOMY,
    ),
    _attack(
        "kernel-memory",
        "fill the kernel's memory with data that lies in sockets",
        probing(KERNEL_MEMORY),
        _counted("memory of the kernel"),
        ROOMY,
    ),
    _attack(
        "endless-loop",
        "use the processor without end",
        "while True: pass",
        ended("cpu_timeout", within_seconds=ONE_CPU_SECOND.wall_seconds),
        ONE_CPU_SECOND,
    ),
    _attack(
        "ignore-cpu-limit",
        "use the processor without end and ignore the signal that says so",
        IGNORE_CPU_LIMIT,
        ended("cpu_timeout", "wall_timeout", within_seconds=ONE_CPU_SECOND.wall_seconds + GRACE_SECONDS),
        ONE_CPU_SECOND,
    ),
    _attack(
        "orphans-at-work",
        "use the processor in orphans, while the program itself sleeps",
        ORPHANS_AT_WORK,
        ended("cpu_timeout", within_seconds=ONE_CPU_SECOND.wall_seconds - 1.0),
        ONE_CPU_SECOND,
    ),
    _attack(
        "relay",
        "use the processor in a chain of short-lived orphans",
        RELAY,
        # By the CPU time of all its orphans: where cores are shared, a chain of many takes its second in any wall time.
        ended("cpu_timeout", "process_limit", within_seconds=ONE_CPU_SECOND.wall_seconds - 1.0, within_cpu_seconds=2.0),
        ONE_CPU_SECOND,
    ),
    _attack(
        "unwaited-children",
        "use the processor in short-lived children whose end is ignored, so that nobody is told what they used",
        UNWAITED,
        ended("cpu_timeout", "nonzero_exit", within_seconds=ONE_CPU_SECOND.wall_seconds - 1.0, within_cpu_seconds=2.0),
        ONE_CPU_SECOND,
    ),
    _attack(
        "ignore-signals",
        "sleep without end and ignore every signal that can be ignored",
        IGNORE_SIGNALS,
        ended("wall_timeout", within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        BRIEF,
    ),
    _attack(
        "stop-itself",
        "stop itself and its process group, so that waiting for it takes for ever",
        f"import os\nos.kill(0, {signal.SIGSTOP:d})\nos.kill(os.getpid(), {signal.SIGSTOP:d})",
        ended("wall_timeout", within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        BRIEF,
    ),
    _attack(
        "busy-processes",
        "use more than one processor with 4 busy processes",
        probing(BUSY_PROCESSES, MOST_CPUS=MOST_CPUS),
        _counted("more than one processor"),
    ),
    _attack("deep-recursion", "recurse without end in Python", RECURSION, judged_by(_failed_alone), ONE_CPU_SECOND),
    _attack(
        "deep-recursion-in-c", "recurse until the C stack ends", RECURSION_IN_C, judged_by(_failed_alone), ONE_CPU_SECOND
    ),
    _attack(
        "segfault", "crash the interpreter", "import ctypes\nctypes.string_at(0)", judged_by(_failed_alone)
    ),
    _attack(
        "kill-itself", "look like a program that ran out of memory", "import os\nos.kill(os.getpid(), 9)",
        judged_by(_failed_alone),
    ),
    _attack("stdout-flood", "write to standard output without end", FLOOD.format(handle=1), judged_by(_output_cut)),
    _attack("stderr-flood", "write to standard error without end", FLOOD.format(handle=2), judged_by(_output_cut)),
    _attack(
        "flood-by-children", "leave children that write without end, and exit", FLOOD_BY_CHILDREN, judged_by(_output_cut)
    ),
    _attack(
        "open-files", "open 20000 files", probing(HANDLES), refused("20000 open files", "open files")
    ),
    Attack(
        name="starve-the-neighbour",
        theme=THEME,
        tries="use up the kernel's objects that all boxes share (inotify, epoll, pipes) while another program works",
        at_once=True,
        jobs=tuple(Execution(program=probing(each), limits=SHORT) for each in (KERNEL_OBJECTS, ORDINARY_WORK)),
        judge=_undisturbed,
    ),
)  # fmt: skip
