"""Attacks from one program on the next: what it leaves, and what it finds of those before it."""

from collections.abc import Sequence

from components.sandbox.attacks.base import SHORT, Attack, Verdict, ending, probing
from components.sandbox.attacks.grading import nothing_left
from components.sandbox.attacks.kinds import at_once, leaving
from components.sandbox.attacks.searches import LOOK_FOR_PROCESSES, MEMORY_SEARCH
from components.schema import Execution, ExecutionResult

SECRETS = {"PROGRAM": "10293847", "STDIN": "56473829", "FILE": "91827364", "OUTPUT": "48151623"}
"""Numbers that the first program is given, or makes; none of them may turn up in a later one."""
PLACES = ("/dev/shm/left", "/dev/mqueue/left", "/run/left", "/var/tmp/left", "/run/lock/left")

KEEP_SECRETS = f"""
import sys
secret = "TRP-PROGRAM-{SECRETS["PROGRAM"]}"
line = sys.stdin.read()
with open("secret") as file:
    kept = file.read()
print("TRP-OUTPUT-" + str({int(SECRETS["OUTPUT"]) - 1} + 1) + " " * 3000)
"""
"""The output's number is not in the program, only in what it writes."""

SEARCH_MEMORY = f"""
{MEMORY_SEARCH}
hits, where = seen_in_memory(rb"TRP-(?:PROGRAM|STDIN|FILE|OUTPUT)-(\\d{{8}})")
for name, number in SECRETS.items():
    notice("the last one's " + name.lower(), number if number in hits else "", where)
"""


def _secrets_kept(results: Sequence[ExecutionResult]) -> Verdict:
    """The first program had its secrets, and no later one found any of them."""
    keeper = results[0]
    if keeper.status != "ok" or SECRETS["OUTPUT"] not in keeper.stdout:
        return Verdict(stopped=False, by=f"the first program: {ending(keeper)}")
    return nothing_left(*(f"the last one's {name.lower()}" for name in SECRETS))(results)


ATTACKS = (
    Attack(
        name="memory-of-the-last-program",
        tries="find the last program, its input, files and output in all memory that can be read",
        jobs=(
            Execution(
                program=KEEP_SECRETS,
                stdin=f"TRP-STDIN-{SECRETS['STDIN']}\n" * 50,
                files={"secret": f"TRP-FILE-{SECRETS['FILE']}\n" * 50},
                limits=SHORT,
            ),
        ),
        look=Execution(program=probing(SEARCH_MEMORY, SECRETS=SECRETS), limits=SHORT),
        judge=_secrets_kept,
    ),
    leaving(
        "daemons",
        "leave 20 daemons that write to the output and the folder of the next program",
        """
import os, signal, sys, time
for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                for handle in (1, 2):
                    try:
                        os.write(handle, b"a daemon was here")
                    except OSError:
                        pass
                open("daemon", "w").close()
                time.sleep(0.01)
        os._exit(0)
""",
        LOOK_FOR_PROCESSES,
    ),
    leaving(
        "moving-target",
        "leave processes that fork and exit faster than they can be killed",
        """
import os, time
print("leaving", flush=True)
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        os.close(1)
        os.close(2)
        while True:
            try:
                if os.fork():
                    os._exit(0)
            except OSError:
                pass
""",
        LOOK_FOR_PROCESSES,
    ),
    leaving(
        "shadow-modules",
        "leave modules that the next program will import instead of the standard library",
        probing("""
text = "import sys\\nsys.stdout.write('SHADOWED')\\nraise SystemExit(0)\\n"
names = ["json", "random", "sitecustomize", "usercustomize", "heapq", "encodings", "site", "this", "antigravity"]
for name in names:
    write(name + ".py", text)
os.makedirs("collections", exist_ok=True)
write("collections/__init__.py", text)
write("x.pth", "import os; os.write(1, b'SHADOWED')")
found = {}
"""),
        """
for name in ("json", "random", "heapq", "collections", "this_is_not_there", "bisect", "string"):
    try:
        module = __import__(name)
    except ImportError:
        continue
    place = getattr(module, "__file__", "") or ""
    notice("shadowed " + name, place if place.startswith(os.getcwd()) else "")
left = [name for name in os.listdir(os.getcwd()) if name.endswith((".py", ".pth")) or name in ("collections", "__pycache__")]
notice("modules of another program", left)
""",
        "shadowed json",
        "shadowed random",
        "shadowed collections",
    ),
    leaving(
        "patch-the-interpreter",
        "patch builtins, modules and the interpreter's state for the next program",
        probing("""
import atexit, bisect, builtins, gc, random
def patch():
    builtins.sum = lambda *values: 42
    builtins.print_was = print
    json.loads = lambda text: "patched"
    random.random = lambda: 0.5
    sys.modules["bisect"] = sys.modules["errno"]
    sys.setrecursionlimit(4321)
    sys.path.insert(0, "/patched")
    gc.callbacks.append(lambda *event: None)
    os.environ["TROUPE_PATCHED"] = "1"
    os.umask(0o777)
atexit.register(patch)
patch()
"""),
        """
import bisect, builtins, gc, random
notice("a patched builtin", sum([1]) != 1 or hasattr(builtins, "print_was"))
notice("a patched module", json.loads("[1]") != [1] or not hasattr(bisect, "insort"))
notice("a fixed random", random.random() == random.random())
notice("a changed interpreter", sys.getrecursionlimit() == 4321 or "/patched" in sys.path or gc.callbacks)
umask = os.umask(0)
os.umask(umask)
notice("a changed process", "TROUPE_PATCHED" in os.environ or umask == 0o777)
""",
    ),
    leaving(
        "shared-objects",
        "leave shared memory, queues, semaphores, keys and files where the next program can find them",
        probing(
            """
def memory():
    block = call(29, 194, 0x7A7A, 4096, 0o1666)
    libc.shmat.restype = ctypes.c_void_p
    libc.memset(ctypes.c_void_p(libc.shmat(block, None, 0)), 65, 16)
    return block
attempt("SysV memory", memory)
attempt("SysV queue", lambda: call(68, 186, 0x7A7A, 0o1666))
attempt("SysV semaphore", lambda: call(64, 190, 0x7A7A, 1, 0o1666))
for path in PLACES:
    attempt(path, lambda: write(path, "left behind"))
def queue():
    name = ctypes.create_string_buffer(b"troupe-left")
    return call(240, 180, ctypes.addressof(name), os.O_CREAT | os.O_RDWR, 0o666, 0)
attempt("POSIX queue", queue)
def key():
    kind, name, text = (ctypes.create_string_buffer(each) for each in (b"user", b"troupe-left", b"left behind"))
    return call(248, 217, *map(ctypes.addressof, (kind, name, text)), 11, -4)
attempt("key of the user", key)
""",
            PLACES=PLACES,
        ),
        """
attempt("SysV memory", lambda: call(29, 194, 0x7A7A, 4096, 0o600))
attempt("SysV queue", lambda: call(68, 186, 0x7A7A, 0o600))
attempt("SysV semaphore", lambda: call(64, 190, 0x7A7A, 1, 0o600))
for path in PLACES:
    attempt(path, lambda: read(path))
def queue():
    name = ctypes.create_string_buffer(b"troupe-left")
    return call(240, 180, ctypes.addressof(name), os.O_RDWR, 0, 0)
attempt("POSIX queue", queue)
def key():
    kind, name = (ctypes.create_string_buffer(each) for each in (b"user", b"troupe-left"))
    return call(249, 218, *map(ctypes.addressof, (kind, name)), 0, -4)
attempt("key of the user", key)
""",
        *PLACES,
        PLACES=PLACES,
    ),
    at_once(
        "watch-the-neighbour",
        "see the files and processes of a program that runs at the same time",
        """
write("TRP-AT-WORK", "secret")
time.sleep(0.7)
""",
        """
seen = []
for _ in range(10):
    time.sleep(0.03)
    for folder in ("/tmp", "/var/tmp", "/dev/shm", os.getcwd()):
        outcome(lambda: seen.extend(name for name in os.listdir(folder) if name == "TRP-AT-WORK"))
notice("its files", seen)
working = []
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        if os.path.exists(f"/proc/{name}/cwd/TRP-AT-WORK"):
            working.append(name)
notice("its processes", working)
""",
    ),
)
