"""Attacks between two concurrent boxes, through what the kernel keeps once for all of them."""

from components.sandbox.attacks.kinds import at_once, probe

FUTEX = """
libc.mmap.restype = ctypes.c_void_p
handle = os.open(os.path.realpath("/usr/bin/python3"), os.O_RDONLY)
place = libc.mmap(None, ctypes.c_size_t(4096), 1, SHARED, handle, ctypes.c_long(0))
value = ctypes.c_uint32.from_address(place).value
"""

WAIT = f"""{FUTEX}
class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]
timeout = Time(1, 500_000_000)
def wait():
    return call(202, 98, place, 0, value, ctypes.addressof(timeout), 0, 0)
attempt("be woken by another box", wait)
"""

WAKE = f"""{FUTEX}
woken = 0
def wake():
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        if (woken := call(202, 98, place, 1, 100, 0, 0, 0)) > 0:
            return woken
        time.sleep(0.01)
    raise OSError(errno.ETIMEDOUT, "")
time.sleep(0.2)
attempt("wake another box", wake)
"""

WAKE_BY_EXIT = f"""{FUTEX}
# At its end a thread wakes who waits at the address that it named, writable or not.
import threading
def name_and_end():
    call(218, 96, place)
    call(60, 93, 0)
for _ in range(5):
    threading.Thread(target=name_and_end, daemon=True).start()
    time.sleep(0.2)
found = {{"threads": [False, "ended"]}}
tell()
os._exit(0)
"""

QUIET_FILES = """
import glob
files = sorted(glob.glob(os.path.dirname(os.__file__) + "/**/*.py", recursive=True), key=os.path.getsize)[-40:-20]
NOWAIT = 8
def cached(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(handle, [bytearray(1)], 16384, NOWAIT) == 1
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
"""

DROP_PAGES = f"""{QUIET_FILES}
def drop():
    for path in files[::2]:
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
for path in files:
    with open(path, "rb") as file:
        file.read()
end = time.monotonic() + 1.2
while time.monotonic() < end:
    attempt("drop pages", drop)
    time.sleep(0.02)
"""

ASK_FOR_PAGES = f"""{QUIET_FILES}
time.sleep(0.6)
def ask():
    told = [cached(path) for path in files]
    return "".join(map(str, map(int, told)))
attempt("ask which pages are cached", ask)
"""

COUNTS = (
    "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr", "/proc/sys/fs/dentry-state", "/proc/sys/kernel/pty/nr", "/proc/stat",
    "/proc/vmstat", "/proc/self/root/proc/vmstat",
)  # fmt: skip

ATTACKS = (
    *(
        at_once(
            f"wake-the-neighbour-{name}",
            f"wake a program of another box that waits at a {name} page of a file that both have (futex)",
            WAKE,
            WAIT,
            SHARED=flag,
        )
        for name, flag in (("shared", 1), ("private", 2))
    ),
    at_once(
        "wake-by-ending",
        "wake it by the end of a thread, at which the kernel does so",
        WAKE_BY_EXIT,
        WAIT,
        SHARED=1,
    ),
    at_once(
        "cached-pages",
        "have files dropped from memory, for another box to ask which ones are there",
        DROP_PAGES,
        ASK_FOR_PAGES,
    ),
    probe(
        "counts-of-the-machine",
        "read how many files, terminals and pages the whole machine has in use",
        """
def count(path):
    told = read(path)
    if not told:
        raise OSError(errno.ENODATA, "")
    return told
for path in COUNTS:
    attempt(path, lambda: count(path))
""",
        *COUNTS,
        COUNTS=COUNTS,
    ),
    probe(
        "interrupt-all-processors",
        "interrupt all processors of the machine without end, or wait for all of them (membarrier)",
        """
def interrupt(command):
    end, times = time.monotonic() + 0.2, 0
    while time.monotonic() < end:
        call(324, 283, command, 0, 0)
        times += 1
    return times
attempt("wait for all processors", lambda: interrupt(1))
attempt("interrupt all processors", lambda: interrupt(2))
""",
    ),
)
