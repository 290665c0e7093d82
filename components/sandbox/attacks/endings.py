"""Attacks on how a program's end and output are told: who is ended first, what is read last, which code is believed."""

from collections.abc import Sequence

from components.sandbox.attacks.base import SHORT, Attack, Judge, Verdict, ending
from components.sandbox.attacks.judges import GRACE_SECONDS, ended, exits_as, judged_by
from components.schema import Execution, ExecutionResult, Limits

THEME = "endings"
BRIEF = Limits(wall_seconds=1.0, cpu_seconds=1.0, memory_mib=192)
LONG = Limits(wall_seconds=4.0, cpu_seconds=4.0, memory_mib=192)

SMALL = """
import _socket, posix, time
for score in (-1000, 0, 500):
    try:
        handle = posix.open("/proc/self/oom_score_adj", 1)
        posix.write(handle, str(score).encode())
        break
    except OSError:
        pass
def hold():
    held = []
    while True:
        try:
            one, other = _socket.socketpair()
            held.append((one, other))
            one.setblocking(False)
            while True:
                one.send(b"x" * 65536)
        except BlockingIOError:
            pass
        except OSError:
            time.sleep(0.05)
for _ in range(40):
    if posix.fork() == 0:
        hold()
hold()
"""
OUTLIVE = """
import os
source = SOURCE
os.execv("/usr/bin/python3", ["python3", "-I", "-S", "-c", source])
"""
"""Beside an interpreter started anew the runner is large, and what the kernel holds for a process makes it no larger."""

CIRCLES = """
import array, os, socket
for _ in range(30):
    if os.fork() == 0:
        break
while True:
    try:
        ends = socket.socketpair()
        rights = array.array("i", [end.fileno() for end in ends])
        for end in ends:
            end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            end.close()
    except OSError:
        pass
"""

LEADER_ENDS = """
import ctypes, os, threading, time
def outlive():
    time.sleep(0.3)
    os.write(1, b"told by a thread")
    os._exit(9)
threading.Thread(target=outlive).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""

PACKETS = """
import fcntl, os
os.write(1, b"a" * 100)
writer = os.open("/proc/self/fd/1", os.O_WRONLY)
for size in (1 << 20, 4096):
    try:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, size)
    except OSError:
        pass
os.write(writer, b"b" * 100)
fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)
for _ in range(10):
    os.write(1, b"c" * 100)
    os.write(1, b"")
for act in (lambda: os.ftruncate(1, 0), lambda: os.lseek(1, 0, 0), lambda: os.pwrite(1, b"x", 0)):
    try:
        act()
    except OSError:
        pass
fcntl.fcntl(1, fcntl.F_SETFL, 0)
os.close(writer)
os.write(1, b"d" * 3)
os._exit(8)
"""

TINY_WRITES = """
import os
for _ in range(20):
    if os.fork() == 0:
        while True:
            os.write(2, b"x")
while True:
    os.write(1, b"")
"""

CUT_TEXT = """
import os
os.write(1, b"\\xf0\\x9f\\x98\\x80" * 16383 + b"\\xf0\\x9f\\x98")
os.write(2, b"\\xff" * 65536)
with open("file", "wb") as file:
    file.write(b"\\xff" * (1 << 20))
"""

CODES = {"256 + 7": 7, "-1": 255, "-9": 247, "(1 << 40) + 5": 5, "'0'": 1, "0.0": 1, "True": 1}
"""What a program exits with, and what any Python makes of it."""

KILLED_BY_CHILD = """
import os, signal, time
parent = os.getpid()
if os.fork() == 0:
    time.sleep(0.1)
    os.kill(parent, signal.SIGKILL)
    os._exit(0)
signal.sigtimedwait([signal.SIGRTMAX], 5)
"""


def _all_told(result: ExecutionResult) -> Verdict:
    """Every byte of the output, in its order, and the true code."""
    held = exits_as(8, by="")([result]).stopped and result.stdout == "a" * 100 + "b" * 100 + "c" * 1000 + "ddd"
    return Verdict(stopped=held, by=f"{len(result.stdout)} of 1203 characters came back; {ending(result)}")


def _bounded_text(result: ExecutionResult) -> Verdict:
    """As many characters as bytes at most, all of which can be written down."""
    texts = (result.stdout, result.stderr, result.files.get("file", ""))
    sizes = [len(text) for text in texts]
    held = result.status == "ok" and sizes == [16384, 65536, 1 << 20] and all(text.encode() for text in texts)
    return Verdict(stopped=held, by=f"{', '.join(map(str, sizes))} characters; {ending(result)}")


def _codes(results: Sequence[ExecutionResult]) -> Verdict:
    told = [result.exit_code for result in results if result.status == "nonzero_exit"]
    return Verdict(stopped=told == list(CODES.values()), by=f"exit codes {told}")


def _killed(result: ExecutionResult) -> Verdict:
    return Verdict(stopped=(result.status, result.exit_code) == ("nonzero_exit", -9), by=ending(result))


def _attack(
    name: str, tries: str, program: str, judge: Judge, *, limits: Limits = SHORT, outputs: tuple[str, ...] = ()
) -> Attack:
    jobs = (Execution(program=program, limits=limits, outputs=outputs),)
    return Attack(name=name, theme=THEME, tries=tries, jobs=jobs, judge=judge)


ATTACKS = (
    _attack(
        "outlive-the-runner",
        "have the kernel end the runner: fill its memory with data in sockets, in processes that are smaller than the runner",
        OUTLIVE.replace("SOURCE", repr(SMALL)),
        ended(within_seconds=LONG.wall_seconds + GRACE_SECONDS),
        limits=LONG,
    ),
    _attack(
        "sockets-in-circles",
        "keep the kernel searching for sockets that only hold each other, in time that counts for nobody",
        CIRCLES,
        ended(within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        limits=BRIEF,
    ),
    _attack(
        "leader-ends",
        "end the first thread with 0, and the program later with 9 from another",
        LEADER_ENDS,
        exits_as(9, by="the end of the last thread is the program's"),
    ),
    _attack(
        "output-in-packets",
        "make its output pipe small and one of packets, with empty ones among them, and write by several handles",
        PACKETS,
        judged_by(_all_told),
    ),
    _attack(
        "tiny-writes",
        "keep the runner reading single bytes from 20 processes",
        TINY_WRITES,
        ended(within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        limits=BRIEF,
    ),
    _attack(
        "cut-text",
        "end its output at the limit within a character, fill errors and files with bytes that are no text",
        CUT_TEXT,
        judged_by(_bounded_text),
        outputs=("file",),
    ),
    Attack(
        name="odd-exit-codes",
        theme=THEME,
        tries="exit with codes that are no codes",
        jobs=tuple(Execution(program=f"import sys; sys.exit({code})", limits=SHORT) for code in CODES),
        judge=_codes,
    ),
    _attack(
        "killed-by-its-child", "be killed by its child, as by a limit", KILLED_BY_CHILD, judged_by(_killed)
    ),
)  # fmt: skip
