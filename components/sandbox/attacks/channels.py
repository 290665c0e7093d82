"""Attacks that carry data where no file and no network does: locks, names, watches, and what is counted by user."""

from collections.abc import Sequence

from components.sandbox.attacks.base import SHORT, Attack, Judge, Verdict, ending, probing, report
from components.sandbox.attacks.judges import heard, nothing_left, refused
from components.schema import Execution, ExecutionResult

THEME = "channels"
PLACES = ("/usr/bin/python3", "/runner.py", "/etc/passwd", "/dev/null", "/dev/zero", "/tmp", "/proc/version")
"""What every program can open, in the root file system, among the devices, and of its own."""

HOLD_LOCKS = """
import array, fcntl, struct
handles = []
for path in PLACES:
    handle = os.open(path, os.O_RDONLY)
    handles.append(handle)
    range_of_bytes = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 7, 1, 0)
    attempt(path + ", OFD lock", lambda: fcntl.fcntl(handle, 37, range_of_bytes))
    attempt(path + ", flock", lambda: fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB))
    attempt(path + ", lock", lambda: fcntl.fcntl(handle, fcntl.F_SETLK, range_of_bytes))
"""

IN_A_CYCLE = """
one, other = socket.socketpair()
rights = array.array("i", [*handles, one.fileno(), other.fileno()])
for end in (one, other):
    end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
"""

LOOK_FOR_LOCKS = """
import fcntl, struct
for path in PLACES:
    handle = os.open(path, os.O_RDONLY)
    def held(command):
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 7, 1, 0)
        kind = struct.unpack("hhqqi4x", fcntl.fcntl(handle, command, asked))[0]
        if kind == fcntl.F_UNLCK:
            raise OSError(errno.ENOLCK, "")
        return kind
    attempt(path + ", lock seen", lambda: held(fcntl.F_GETLK))
    attempt(path + ", OFD lock seen", lambda: held(36))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen = False
        fcntl.flock(handle, fcntl.LOCK_UN)
    except BlockingIOError:
        seen = True
    except OSError:
        seen = False
    notice(path + ", flock seen", seen)
"""
LOCKS = tuple(f"{place}, {kind} seen" for place in PLACES for kind in ("lock", "OFD lock", "flock"))

LEAVE_NAMES = """
import array
each = socket.socket(socket.AF_UNIX)
each.bind("\\0troupe-left")
each.listen()
handles = [each.fileno()]
"""

LOOK_FOR_NAMES = """
def bind():
    with socket.socket(socket.AF_UNIX) as each:
        each.bind("\\0troupe-left")
attempt("bind", bind)
free, why = found.pop("bind")
notice("an abstract name in use", "" if free else why)
with open("/proc/net/unix") as file:
    sockets = file.readlines()[1:]
notice("sockets of another program", [line.split()[-1] for line in sockets])
"""

TABLES = tuple(
    f"{root}/proc/{name}"
    for root in ("", "/proc/self/root")
    for name in ("locks", "keys", "timer_list", "interrupts", "schedstat", "diskstats", "pressure/cpu", "fs/ext4")
)
READ_TABLES = """
def table(path):
    content = read(path)
    if not content.strip():
        raise OSError(errno.ENODATA, "")
    return content
for path in TABLES:
    attempt(path, lambda: table(path))
"""

SEND_BY_LOCKS = (
    HOLD_LOCKS
    + """
time.sleep(1.2)
"""
)

RECEIVE_BY_LOCKS = (
    """
time.sleep(0.5)
"""
    + LOOK_FOR_LOCKS
)

WATCH = """
x86 = os.uname().machine == "x86_64"
def watch(path):
    handle = syscall(294 if x86 else 26, 0o4000)
    name = ctypes.create_string_buffer(path.encode())
    syscall(254 if x86 else 27, handle, ctypes.addressof(name), 0xFFF)
    time.sleep(1.0)
    return os.read(handle, 4096)
attempt("events of another box", lambda: watch("/etc/passwd"))
"""

BE_WATCHED = """
end = time.monotonic() + 1.2
while time.monotonic() < end:
    read("/etc/passwd")
    time.sleep(0.01)
notice("opened", "", "a file, again and again")
"""

USE_UP = """
import array, signal
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
queued = in_flight = 0
try:
    while queued < 300_000:
        checked(libc.sigqueue(os.getpid(), signal.SIGRTMIN, None))
        queued += 1
except OSError:
    pass
pairs = []
try:
    while in_flight < 20_000:
        pairs.append(socket.socketpair())
        one, other = pairs[-1]
        one.setblocking(False)
        rights = array.array("i", [one.fileno()] * 250)
        while True:
            one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            in_flight += 250
except OSError:
    pass
time.sleep(1.2)
notice("used up", "", f"{queued} signals queued, {in_flight} handles in flight")
"""

ORDINARY_WORK = """
import array, signal
time.sleep(0.9)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
attempt("queue a signal", lambda: checked(libc.sigqueue(os.getpid(), signal.SIGRTMIN, None)))
def send():
    one, other = socket.socketpair()
    return one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [one.fileno()]))])
attempt("send a handle", send)
"""


def _undisturbed(results: Sequence[ExecutionResult]) -> Verdict:
    """The neighbour was refused nothing while the hog held all it could get."""
    hog, neighbour = results
    told, held = report(neighbour), report(hog)
    if told is None or held is None or "used up" not in held.refused:
        return Verdict(stopped=False, by=f"the hog: {ending(hog)}; the neighbour: {ending(neighbour)}")
    through = told.got.keys() == {"queue a signal", "send a handle"}
    return Verdict(stopped=through, by=f"{held.refused['used up']}; the neighbour: {', '.join(told.got)}")


def _at_once(name: str, tries: str, first: str, second: str, judge: Judge) -> Attack:
    jobs = tuple(Execution(program=program, limits=SHORT) for program in (first, second))
    return Attack(name=name, theme=THEME, tries=tries, at_once=True, jobs=jobs, judge=judge)


def _left(name: str, tries: str, leave: str, look: str, judge: Judge) -> Attack:
    jobs = (Execution(program=leave, limits=SHORT),)
    return Attack(
        name=name, theme=THEME, tries=tries, jobs=jobs, look=Execution(program=look, limits=SHORT), judge=judge
    )


ATTACKS = (
    _left(
        "locks-in-a-cycle",
        "leave locks on files, held by handles in flight between sockets which nobody has",
        probing(HOLD_LOCKS + IN_A_CYCLE, PLACES=PLACES),
        probing(LOOK_FOR_LOCKS, PLACES=PLACES),
        nothing_left(*LOCKS),
    ),
    _left(
        "names-in-a-cycle",
        "leave the name of a listening socket, held the same way",
        probing(LEAVE_NAMES + IN_A_CYCLE),
        probing(LOOK_FOR_NAMES),
        nothing_left("an abstract name in use", "sockets of another program"),
    ),
    _at_once(
        "messages-by-locks",
        "tell another box something by locks on files and devices that both can open",
        probing(SEND_BY_LOCKS, PLACES=PLACES),
        probing(RECEIVE_BY_LOCKS, PLACES=PLACES),
        heard(*LOCKS),
    ),
    _at_once(
        "messages-by-watches",
        "watch what another box opens (inotify)",
        probing(BE_WATCHED),
        probing(WATCH),
        heard("events of another box"),
    ),
    Attack(
        name="tables-of-the-machine",
        theme=THEME,
        tries="read the kernel's tables of what all boxes and the host do: locks, keys, timers, interrupts, disks",
        jobs=(Execution(program=probing(READ_TABLES, TABLES=TABLES), limits=SHORT),),
        judge=refused(*TABLES),
    ),
    _at_once(
        "use-up-the-user",
        "use up what all programs of one user share: queued signals, handles in flight",
        probing(USE_UP),
        probing(ORDINARY_WORK),
        _undisturbed,
    ),
)
