"""Attacks on how a program's end and output are reported: which process ends first, what is read last, which code counts."""

from collections.abc import Sequence

from components.sandbox.attacks.base import SHORT, Attack, Verdict
from components.sandbox.attacks.grading import GRACE_SECONDS, comes_back, exits_as, expect_ended
from components.sandbox.attacks.kinds import attack
from components.schema import Execution, ExecutionResult, Limits

BRIEF = Limits(wall_seconds=1.0, cpu_seconds=1.0, memory_mib=192)
LONG = Limits(wall_seconds=4.0, cpu_seconds=4.0, memory_mib=192)

FILL_SOCKETS = """
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

CODES = {"256 + 7": 7, "-1": 255, "-9": 247, "(1 << 40) + 5": 5, "'0'": 1, "0.0": 1, "True": 1}
"""What a program exits with, and the exit code that any Python reports."""


def _is_whole(result: ExecutionResult) -> bool:
    """Whether every byte of the output came back in order, with the program's exit code."""
    is_true = (result.status, result.exit_code) == ("nonzero_exit", 8)
    return is_true and result.stdout == "a" * 100 + "b" * 100 + "c" * 1000 + "ddd"


def _is_bounded(result: ExecutionResult) -> bool:
    """Whether at most as many characters as bytes came back, all of which can be encoded."""
    texts = (result.stdout, result.stderr, result.files.get("file", ""))
    sizes = [len(text) for text in texts]
    return result.status == "ok" and sizes == [16384, 65536, 1 << 20] and all(text.encode() for text in texts)


def _codes(results: Sequence[ExecutionResult]) -> Verdict:
    told = [result.exit_code for result in results if result.status == "nonzero_exit"]
    return Verdict(stopped=told == list(CODES.values()), by=f"exit codes {told}")


ATTACKS = (
    attack(
        "outlive-the-runner",
        "have the kernel end the runner: fill its memory with data in sockets, in processes that are smaller than the runner",
        # Beside an interpreter started anew the runner is large; what the kernel holds for a process makes it no larger.
        f'import os\nos.execv("/usr/bin/python3", ["python3", "-I", "-S", "-c", {FILL_SOCKETS!r}])',
        expect_ended(within_seconds=LONG.wall_seconds + GRACE_SECONDS),
        limits=LONG,
    ),
    attack(
        "sockets-in-circles",
        "keep the kernel searching for sockets that only hold each other, in time that counts for nobody",
        """
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
""",
        expect_ended(within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        limits=BRIEF,
    ),
    attack(
        "leader-ends",
        "end the first thread with 0, and the program later with 9 from another",
        """
import ctypes, os, threading, time
def outlive():
    time.sleep(0.3)
    os.write(1, b"told by a thread")
    os._exit(9)
threading.Thread(target=outlive).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
""",
        exits_as(9),
    ),
    attack(
        "output-in-packets",
        "make its output pipe small and one of packets, with empty ones among them, and write by several handles",
        """
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
""",
        comes_back(_is_whole),
    ),
    attack(
        "tiny-writes",
        "keep the runner reading single bytes from 20 processes",
        """
import os
for _ in range(20):
    if os.fork() == 0:
        while True:
            os.write(2, b"x")
while True:
    os.write(1, b"")
""",
        expect_ended(within_seconds=BRIEF.wall_seconds + GRACE_SECONDS),
        limits=BRIEF,
    ),
    attack(
        "cut-text",
        "end its output at the limit within a character, fill errors and files with bytes that are no text",
        """
import os
os.write(1, b"\\xf0\\x9f\\x98\\x80" * 16383 + b"\\xf0\\x9f\\x98")
os.write(2, b"\\xff" * 65536)
with open("file", "wb") as file:
    file.write(b"\\xff" * (1 << 20))
""",
        comes_back(_is_bounded),
        outputs=("file",),
    ),
    Attack(
        name="odd-exit-codes",
        tries="exit with codes that are no codes",
        jobs=tuple(Execution(program=f"import sys; sys.exit({code})", limits=SHORT) for code in CODES),
        judge=_codes,
    ),
    attack(
        "killed-by-its-child",
        "be killed by its child, as by a limit",
        """
import os, signal, time
parent = os.getpid()
if os.fork() == 0:
    time.sleep(0.1)
    os.kill(parent, signal.SIGKILL)
    os._exit(0)
signal.sigtimedwait([signal.SIGRTMAX], 5)
""",
        exits_as(-9),
    ),
)
