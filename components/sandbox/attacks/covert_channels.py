"""Attacks that carry data by other means than files and networks: locks, names, watches, and what is counted per user."""

from components.sandbox.attacks.base import probing
from components.sandbox.attacks.grading import expect_undisturbed
from components.sandbox.attacks.kinds import at_once, leaving, probe

PLACES = ("/usr/bin/python3", "/runner.py", "/etc/passwd", "/dev/null", "/dev/zero", "/tmp", "/proc/version")
"""What every program can open: in the root file system, among the devices, and its own."""

HOLD_LOCKS = """
import fcntl, struct
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
for end in (one, other):
    socket.send_fds(end, [b"x"], [*handles, one.fileno(), other.fileno()])
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
    flock = outcome(lambda: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB))
    notice(path + ", flock seen", flock == (False, "EAGAIN"))
    if flock[0]:
        fcntl.flock(handle, fcntl.LOCK_UN)
"""
LOCKS = tuple(f"{place}, {kind} seen" for place in PLACES for kind in ("lock", "OFD lock", "flock"))

TABLES = tuple(
    f"{root}/proc/{name}"
    for root in ("", "/proc/self/root")
    for name in ("locks", "keys", "timer_list", "interrupts", "schedstat", "diskstats", "pressure/cpu", "fs/ext4")
)

ATTACKS = (
    leaving(
        "locks-in-a-cycle",
        "leave locks on files, held by handles in flight between sockets which nobody has",
        probing(HOLD_LOCKS + IN_A_CYCLE, PLACES=PLACES),
        LOOK_FOR_LOCKS,
        *LOCKS,
        PLACES=PLACES,
    ),
    leaving(
        "names-in-a-cycle",
        "leave the name of a listening socket, held the same way",
        probing(
            """
each = socket.socket(socket.AF_UNIX)
each.bind("\\0troupe-left")
each.listen()
handles = [each.fileno()]
"""
            + IN_A_CYCLE
        ),
        """
def bind():
    with socket.socket(socket.AF_UNIX) as each:
        each.bind("\\0troupe-left")
free, why = outcome(bind)
notice("an abstract name in use", "" if free else why)
with open("/proc/net/unix") as file:
    sockets = file.readlines()[1:]
notice("sockets of another program", [line.split()[-1] for line in sockets])
""",
    ),
    at_once(
        "messages-by-locks",
        "tell another box something by locks on files and devices that both can open",
        HOLD_LOCKS + "time.sleep(1.2)",
        "time.sleep(0.5)" + LOOK_FOR_LOCKS,
        *LOCKS,
        PLACES=PLACES,
    ),
    at_once(
        "messages-by-watches",
        "watch what another box opens (inotify)",
        """
end = time.monotonic() + 1.2
while time.monotonic() < end:
    read("/etc/passwd")
    time.sleep(0.01)
notice("opened", "", "a file, again and again")
""",
        """
def watch(path):
    handle = call(294, 26, 0o4000)
    name = ctypes.create_string_buffer(path.encode())
    call(254, 27, handle, ctypes.addressof(name), 0xFFF)
    time.sleep(1.0)
    return os.read(handle, 4096)
attempt("events of another box", lambda: watch("/etc/passwd"))
""",
    ),
    probe(
        "tables-of-the-machine",
        "read the kernel's tables of what all boxes and the host do: locks, keys, timers, interrupts, disks",
        """
def table(path):
    content = read(path)
    if not content.strip():
        raise OSError(errno.ENODATA, "")
    return content
for path in TABLES:
    attempt(path, lambda: table(path))
""",
        *TABLES,
        TABLES=TABLES,
    ),
    at_once(
        "use-up-the-user",
        "use up what all programs of one user share: queued signals, handles in flight",
        """
import signal
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
        while True:
            socket.send_fds(one, [b"x"], [one.fileno()] * 250)
            in_flight += 250
except OSError:
    pass
time.sleep(1.2)
notice("used up", "", f"{queued} signals queued, {in_flight} handles in flight")
""",
        """
import signal
time.sleep(0.9)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
attempt("queue a signal", lambda: checked(libc.sigqueue(os.getpid(), signal.SIGRTMIN, None)))
def send():
    one, other = socket.socketpair()
    return socket.send_fds(one, [b"x"], [one.fileno()])
attempt("send a handle", send)
""",
        judge=expect_undisturbed("queue a signal", "send a handle", hog_tells=("used up",)),
    ),
)
