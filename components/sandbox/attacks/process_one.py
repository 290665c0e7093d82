"""Attacks on the runner, process 1 of a box, which starts programs and tells the host how they ended."""

from collections.abc import Sequence

from components.sandbox.attacks.base import SHORT, Attack, Judge, Verdict, ending, probing, report
from components.sandbox.attacks.judges import GRACE_SECONDS, all_refused, ended, exits_as, judged_by, refused
from components.schema import Execution, ExecutionResult, Limits

THEME = "process_one"
BRIEF = Limits(wall_seconds=1.0, cpu_seconds=1.0, memory_mib=192)

SIGNALS = """
import signal
sent = 0
for target in {1, os.getppid()}:
    for number in sorted(signal.valid_signals()):
        try:
            os.kill(target, number)
            sent += 1
        except OSError:
            pass
for target in (-1, -os.getppid()):
    try:
        os.kill(target, signal.SIGSTOP if target != -1 else signal.SIGTERM)
    except OSError:
        pass
time.sleep(0.05)
notice("signals", "", f"{sent} signals sent")
"""

STILL_THERE = """
time.sleep(0.05)
notice("runner", "", "answers")
"""

READ_RUNNER = """
import signal
for name in ("mem", "environ", "maps", "fd/0", "fd/1", "fd/3", "root/etc/passwd", "cwd/x", "exe", "auxv", "stack", "syscall"):
    attempt("/proc/1/" + name, lambda: read("/proc/1/" + name))
x86 = os.uname().machine == "x86_64"
attempt("ptrace attach", lambda: syscall(101 if x86 else 117, 16, 1, 0, 0))
attempt("ptrace seize", lambda: syscall(101 if x86 else 117, 0x4206, 1, 0, 0))
def own():
    buffer = ctypes.create_string_buffer(64)
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    here, there = Part(ctypes.addressof(buffer), 64), Part(0x400000, 64)
    return syscall(310 if x86 else 270, 1, ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0)
attempt("process_vm_readv", own)
def take(handle):
    process = os.pidfd_open(1)
    try:
        return syscall(438, process, handle, 0)
    finally:
        os.close(process)
for handle in range(8):
    attempt(f"take handle {handle}", lambda: take(handle))
def write(name, text):
    with open("/proc/1/" + name, "w") as file:
        file.write(text)
for name, text in {"autogroup": "19", "coredump_filter": "0", "timerslack_ns": "1000000000", "clear_refs": "1", "oom_adj": "15",
                   "comm": "owned", "loginuid": "0", "sched": "0", "setgroups": "deny", "attr/current": "x"}.items():
    attempt("/proc/1/" + name, lambda: write(name, text))
def write_channel():
    with open("/proc/1/fd/1", "wb") as channel:
        return channel.write(b"x")
attempt("write to its channel", write_channel)
"""
RUNNER_PLACES = tuple(f"/proc/1/{name}" for name in ("mem", "environ", "maps", "fd/0", "fd/1", "root/etc/passwd"))

INHERITED = """
import fcntl, stat
more = []
for handle in range(3, 4096):
    try:
        kind = os.fstat(handle).st_mode
    except OSError:
        continue
    more.append(f"handle {handle}, {oct(kind)}")
for handle in (0, 1, 2):
    flags = fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE
    expected = os.O_RDONLY if handle == 0 else os.O_WRONLY
    if not stat.S_ISFIFO(os.fstat(handle).st_mode) or flags != expected:
        more.append(f"handle {handle} is not one end of a pipe")
notice("handles of the runner", more, "only standard input, output and error, each one end of a pipe")
"""

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
FORGE = f"""
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
"""

FORGE_EXIT = """
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
"""

CLOSE_HANDLES = """
import os
os.closerange(0, 256)
os._exit(5)
"""

KEEP_PIPES = """
import os, time
if os.fork() == 0:
    time.sleep(30)
os._exit(6)
"""

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

FILL_INPUT = """
import os, time
filling = os.open("/proc/self/fd/0", os.O_WRONLY | os.O_NONBLOCK)
for _ in range(2000):
    os.read(0, 4096)
    try:
        os.write(filling, b"x" * 4096)
    except BlockingIOError:
        pass
time.sleep(60)
"""

RUNNERS_FRAMES = """
import gc, inspect
reached = []
frame = sys._getframe()
while frame is not None:
    for name, value in list(frame.f_locals.items()) + list(frame.f_globals.items()):
        if isinstance(value, int) and not isinstance(value, bool) and value > 2 and "fd" in name.lower():
            try:
                os.fstat(value)
                reached.append(f"{name}={value}")
            except OSError:
                pass
    frame = frame.f_back
for each in gc.get_objects():
    if type(each).__name__ in ("socket", "FileIO"):
        try:
            if each.fileno() > 2:
                os.fstat(each.fileno())
                reached.append(repr(each)[:60])
        except (OSError, ValueError):
            pass
notice("channel through frames and objects", reached, "no open handle is held by any")
"""

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

UNREAD_INPUT = """
import os, time
time.sleep(0.1)
os._exit(4)
"""


def _runner_lives(results: Sequence[ExecutionResult]) -> Verdict:
    """The same runner, of the same box, answers after all signals."""
    attacker, *looks = results
    first, found = report(attacker), [report(look) for look in looks]
    if not found or None in found:
        return Verdict(stopped=False, by="; ".join(ending(look) for look in looks))
    met = first is not None and any(each is not None and each.box == first.box for each in found)
    told = ending(attacker) if first is None else first.refused["signals"]
    return Verdict(stopped=True, by=f"{told}; {'the same runner answers' if met else 'the box was replaced'}")


def _told_the_truth(result: ExecutionResult) -> Verdict:
    """Exit code 7 and the forged frame as plain output."""
    held = exits_as(7, by="")([result]).stopped and '"forged"' in result.stdout
    return Verdict(stopped=held, by=f"frames came back as {len(result.stdout)} characters of output; {ending(result)}")


def _quick(code: int) -> Judge:
    """The exit code of the program itself, long before its limit."""

    def check(result: ExecutionResult) -> Verdict:
        truth = exits_as(code, by="")([result])
        return Verdict(stopped=truth.stopped and result.wall_seconds < SHORT.wall_seconds / 2, by=ending(result))

    return judged_by(check)


def _failed_as_programs(results: Sequence[ExecutionResult]) -> Verdict:
    """Each is a program that failed; none was too much for the runner."""
    odd = [ending(result) for result in results if result.status in ("ok", "sandbox_error")]
    statuses = sorted({result.status for result in results})
    return Verdict(stopped=not odd, by="; ".join(odd) or f"{len(results)} programs ended as {', '.join(statuses)}")


def _channel_out_of_reach(result: ExecutionResult) -> Verdict:
    told = report(result)
    if told is None:
        return Verdict(stopped=False, by=ending(result))
    return all_refused(told, ("channel through frames and objects",))


def _attack(name: str, tries: str, program: str, judge: Judge, *, stdin: str = "") -> Attack:
    jobs = (Execution(program=program, stdin=stdin, limits=SHORT),)
    return Attack(name=name, theme=THEME, tries=tries, jobs=jobs, judge=judge)


ATTACKS = (
    Attack(
        name="signal-the-runner",
        theme=THEME,
        tries="send every signal to the runner and to everything else",
        jobs=(Execution(program=probing(SIGNALS), limits=SHORT),),
        look=Execution(program=probing(STILL_THERE), limits=SHORT),
        judge=_runner_lives,
    ),
    _attack(
        "read-the-runner",
        "read or write the runner's memory, environment and channel, by /proc, ptrace and pidfd",
        probing(READ_RUNNER),
        refused(*RUNNER_PLACES, "ptrace attach", "ptrace seize", "process_vm_readv", "take handle 0", "write to its channel"),
    ),
    _attack(
        "inherited-handles",
        "find an open handle of the runner among its own",
        probing(INHERITED),
        refused("handles of the runner"),
    ),
    _attack(
        "frames-and-objects",
        "walk Python's frames and objects up to the runner and its channel",
        probing(RUNNERS_FRAMES),
        judged_by(_channel_out_of_reach),
    ),
    _attack(
        "forge-a-result", "write a forged result to every handle and exit with 7", FORGE, judged_by(_told_the_truth)
    ),
    _attack(
        "forge-an-exit-code",
        "exit with 9, while a child and a thread exit with 0",
        FORGE_EXIT,
        exits_as(9, by="the exit code is that of the program itself"),
    ),
    _attack(
        "close-all-handles",
        "close input, output and error, and exit with 5",
        CLOSE_HANDLES,
        exits_as(5, by="the end is seen without them"),
    ),
    _attack(
        "keep-the-pipes", "exit with 6 and leave a child that holds the pipes for 30 s", KEEP_PIPES, _quick(6)
    ),
    *(
        Attack(
            name=f"take-back-{name}",
            theme=THEME,
            tries=f"freeze the runner: write to its {name} and read it back before the runner does",
            jobs=(Execution(program=TAKE_BACK.format(handles=handles), limits=BRIEF),),
            judge=ended("wall_timeout", "cpu_timeout", within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        )
        for name, handles in (("output", (1, 2)), ("errors", (2, 1)))
    ),
    Attack(
        name="fill-its-input",
        theme=THEME,
        tries="freeze the runner: fill the pipe from which it reads itself",
        jobs=(Execution(program=FILL_INPUT, stdin="x" * (4 << 20), limits=BRIEF),),
        judge=ended("wall_timeout", "cpu_timeout", within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
    ),
    Attack(
        name="no-programs",
        theme=THEME,
        tries="crash the runner with texts that the compiler cannot take",
        jobs=tuple(Execution(program=text, limits=SHORT) for text in NO_PROGRAMS),
        judge=_failed_as_programs,
    ),
    _attack(
        "unread-input", "leave 4 MiB of input unread and exit with 4", UNREAD_INPUT, _quick(4), stdin="x" * (4 << 20)
    ),
)  # fmt: skip
