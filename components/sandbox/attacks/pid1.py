"""Attacks on the runner, process 1 of a box, which starts programs and reports to the host how they ended."""

from collections.abc import Sequence

from components.sandbox.attacks.base import SHORT, Attack, Verdict, ending, probing, report
from components.sandbox.attacks.grading import GRACE_SECONDS, exits_as, expect_ended, where
from components.sandbox.attacks.kinds import attack, leaving, probe
from components.schema import Execution, ExecutionResult, Limits

BRIEF = Limits(wall_seconds=1.0, cpu_seconds=1.0, memory_mib=192)
ENDS_BRIEFLY = expect_ended("wall_timeout", "cpu_timeout", within_seconds=BRIEF.wall_seconds + GRACE_SECONDS)
QUICK_SECONDS = SHORT.wall_seconds / 2
RUNNER_FILES = ("mem", "environ", "maps", "fd/0", "fd/1", "fd/3", "cwd/x", "exe", "auxv", "stack", "syscall")
RUNNER_PLACES = ("/proc/1/root/etc/passwd", *(f"/proc/1/{name}" for name in RUNNER_FILES))
FORGED = {
    "id": 1,
    "status": "ok",
    "exit": 0,
    "exit_code": 0,
    "why": None,
    "stdout": "forged",
    "out": "forged",
    "clean": True,
}

TAKE_BACK = """
import os, random, time
def take(handle):
    try:
        return os.read(handle, 1)
    except BlockingIOError:
        return b""
first, second = {handles}
taking, checking = (os.open(f"/proc/self/fd/{{handle}}", os.O_RDONLY | os.O_NONBLOCK) for handle in (first, second))
while True:
    os.write(first, b"x")
    end = time.perf_counter() + random.random() * 3e-4
    while time.perf_counter() < end:
        pass
    if take(taking):
        os.write(second, b"x")
        time.sleep(0.003)
        if take(checking):
            time.sleep(60)
    time.sleep(0.001)
"""
"""Takes its byte back when the runner has seen that there is one. A frozen runner does not read the other pipe either."""

NO_PROGRAMS = (
    "(" * 100_000,
    "-" * 1_000_000 + "1",
    "x = " + "[" * 5000 + "]" * 5000,
    "1" * 5_000_000,
    "\0",
    "\ud800 = 1",
    "# -*- coding: no-such-code -*-\nx",
    "# -*- coding: utf-7 -*-\n+AGkAbQBwAG8AcgB0-",
    "f'" + "{" * 300,
    "lambda: " * 100_000 + "1",
    "if 1:\n" + "".join(" " * depth + "if 1:\n" for depth in range(1, 300)),
    "raise SystemExit('no')",
    "import sys; sys.exit(256 * 256 + 3)",
)


def _runner_lives(results: Sequence[ExecutionResult]) -> Verdict:
    """A runner answers after all signals, in the same box or in a new one."""
    attacker, *looks = results
    first, found = report(attacker), [report(look) for look in looks]
    if not found or None in found:
        return Verdict(stopped=False, by="; ".join(ending(look) for look in looks))
    by = ending(attacker) if first is None else f"{first.refused['signals']}; {where(first, found)}"
    return Verdict(stopped=True, by=f"{by}; the runner answers")


def _judge_failures(results: Sequence[ExecutionResult]) -> Verdict:
    """Every program failed, and the runner at none."""
    odd = [ending(result) for result in results if result.status in ("ok", "sandbox_error")]
    statuses = sorted({result.status for result in results})
    return Verdict(stopped=not odd, by="; ".join(odd) or f"{len(results)} programs ended as {', '.join(statuses)}")


ATTACKS = (
    leaving(
        "signal-the-runner",
        "send every signal to the runner and to everything else",
        probing("""
import signal
sent = 0
for target in {1, os.getppid()}:
    for number in sorted(signal.valid_signals()):
        sent += outcome(lambda: os.kill(target, number))[0]
for target in (-1, -os.getppid()):
    outcome(lambda: os.kill(target, signal.SIGSTOP if target != -1 else signal.SIGTERM))
time.sleep(0.05)
notice("signals", "", f"{sent} signals sent")
"""),
        """
time.sleep(0.05)
notice("runner", "", "answers")
""",
        judge=_runner_lives,
    ),
    probe(
        "read-the-runner",
        "read or write the runner's memory, environment and channel, by /proc, ptrace and pidfd",
        """
import signal
for path in PLACES:
    attempt(path, lambda: read(path))
attempt("ptrace attach", lambda: call(101, 117, 16, 1, 0, 0))
attempt("ptrace seize", lambda: call(101, 117, 0x4206, 1, 0, 0))
def own():
    buffer = ctypes.create_string_buffer(64)
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    here, there = Part(ctypes.addressof(buffer), 64), Part(0x400000, 64)
    return call(310, 270, 1, ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0)
attempt("process_vm_readv", own)
def take(handle):
    process = os.pidfd_open(1)
    try:
        return syscall(438, process, handle, 0)
    finally:
        os.close(process)
for handle in range(8):
    attempt(f"take handle {handle}", lambda: take(handle))
for name, text in {"autogroup": "19", "coredump_filter": "0", "timerslack_ns": "1000000000", "clear_refs": "1", "oom_adj": "15",
                   "comm": "owned", "loginuid": "0", "sched": "0", "setgroups": "deny", "attr/current": "x"}.items():
    attempt("/proc/1/" + name, lambda: write("/proc/1/" + name, text))
def write_channel():
    with open("/proc/1/fd/1", "wb") as channel:
        return channel.write(b"x")
attempt("write to its channel", write_channel)
""",
        *RUNNER_PLACES,
        "take handle 0",
        PLACES=RUNNER_PLACES,
    ),
    probe(
        "inherited-handles",
        "find an open handle of the runner among its own",
        """
import fcntl, stat
more = []
for handle in range(3, 4096):
    is_open, kind = outcome(lambda: oct(os.fstat(handle).st_mode))
    if is_open:
        more.append(f"handle {handle}, {kind}")
for handle in (0, 1, 2):
    flags = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE
    expected = os.O_RDONLY if handle == 0 else os.O_WRONLY
    if not stat.S_ISFIFO(os.fstat(handle).st_mode) or flags != expected:
        more.append(f"handle {handle} is not one end of a pipe")
notice("handles of the runner", more, "only standard input, output and error, each one end of a pipe")
""",
    ),
    probe(
        "frames-and-objects",
        "walk Python's frames and objects up to the runner and its channel",
        """
import gc, inspect
reached = []
frame = sys._getframe()
while frame is not None:
    for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
        if isinstance(value, int) and not isinstance(value, bool) and value > 2 and "fd" in name.lower():
            if outcome(lambda: os.fstat(value))[0]:
                reached.append(f"{name}={value}")
    frame = frame.f_back
for each in gc.get_objects():
    if type(each).__name__ in ("socket", "FileIO"):
        if outcome(lambda: os.fstat(each.fileno()))[0] and each.fileno() > 2:
            reached.append(repr(each)[:60])
notice("channel through frames and objects", reached, "no open handle is held by any")
""",
    ),
    attack(
        "forge-a-result",
        "write a forged result to every handle and exit with 7",
        f"""
import json, os, struct, sys
text = json.dumps({FORGED!r}).encode()
frames = [struct.pack(order + "I", len(text)) + text for order in "><"] + [text + b"\\n"]
for handle in [*range(3, 256), 0, 1, 2]:
    for frame in frames:
        try:
            os.write(handle, frame)
        except OSError:
            pass
for target in ("/proc/1/fd/0", "/proc/1/fd/1", "/proc/1/fd/4", "/proc/self/fd/0", "/dev/console", "/dev/tty"):
    try:
        with open(target, "wb") as channel:
            channel.write(frames[0])
    except OSError:
        pass
os._exit(7)
""",
        exits_as(7, stdout='"forged"'),
    ),
    attack(
        "forge-an-exit-code",
        "exit with 9, while a child and a thread exit with 0",
        """
import os, signal, sys, threading
if os.fork() == 0:
    os.kill(os.getppid(), signal.SIGCONT)
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os._exit(0)
    os._exit(0)
threading.Thread(target=lambda: sys.exit(0)).start()
os._exit(9)
""",
        exits_as(9),
    ),
    attack(
        "close-all-handles",
        "close input, output and error, and exit with 5",
        """
import os
os.closerange(0, 256)
os._exit(5)
""",
        exits_as(5),
    ),
    attack(
        "keep-the-pipes",
        "exit with 6 and leave a child that holds the pipes for 30 s",
        """
import os, time
if os.fork() == 0:
    time.sleep(30)
os._exit(6)
""",
        exits_as(6, within_seconds=QUICK_SECONDS),
    ),
    *(
        attack(
            f"take-back-{name}",
            f"freeze the runner: write to its {name} and read it back before the runner does",
            TAKE_BACK.format(handles=handles),
            ENDS_BRIEFLY,
            limits=BRIEF,
        )
        for name, handles in (("output", (1, 2)), ("errors", (2, 1)))
    ),
    attack(
        "fill-its-input",
        "freeze the runner: fill the pipe from which it reads itself",
        """
import os, time
filling = os.open("/proc/self/fd/0", os.O_WRONLY | os.O_NONBLOCK)
for _ in range(2000):
    os.read(0, 4096)
    try:
        os.write(filling, b"x" * 4096)
    except BlockingIOError:
        pass
time.sleep(60)
""",
        ENDS_BRIEFLY,
        stdin="x" * (4 << 20),
        limits=BRIEF,
    ),
    Attack(
        name="no-programs",
        tries="crash the runner with texts that the compiler cannot take",
        jobs=tuple(Execution(program=text, limits=SHORT) for text in NO_PROGRAMS),
        judge=_judge_failures,
    ),
    attack(
        "unread-input",
        "leave 4 MiB of input unread and exit with 4",
        """
import os, time
time.sleep(0.1)
os._exit(4)
""",
        exits_as(4, within_seconds=QUICK_SECONDS),
        stdin="x" * (4 << 20),
    ),
)
