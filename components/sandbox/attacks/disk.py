"""Attacks on the program's own folder: fill it, damage it, nest it beyond cleaning."""

from components.sandbox.attacks.base import probing
from components.sandbox.attacks.grading import ENDED
from components.sandbox.attacks.kinds import leaving, probe
from components.schema import Limits

FILLING = Limits(wall_seconds=6.0, cpu_seconds=4.0, memory_mib=192)

LOOK = """
time.sleep(0.1)
names = os.listdir(os.getcwd())
notice("files of another program", names)
def work():
    write("mine", "x")
    os.mkdir("folder")
    os.rename("mine", "folder/mine")
    os.unlink("folder/mine")
    os.rmdir("folder")
usable, why = outcome(work)
notice("an unusable folder", "" if usable else why)
"""

ATTACKS = (
    probe(
        "fill-disk",
        "write 512 MiB of files",
        """
written = 0
def fill():
    global written
    block = b"x" * (1 << 20)
    for index in range(64):
        with open(f"block-{index}", "wb", buffering=0) as file:
            for _ in range(8):
                written += file.write(block) >> 20
attempt("512 MiB of files", fill)
notice("written", "", f"{written} MiB in all")
""",
        ended=ENDED,
        limits=FILLING,
    ),
    probe(
        "fill-inodes",
        "make 100000 files",
        """
count = 0
def fill():
    global count
    for count in range(100_000):
        os.close(os.open(f"file-{count}", os.O_CREAT | os.O_WRONLY))
attempt("100000 files", fill)
notice("files", "", f"{count} in all")
""",
        ended=ENDED,
        limits=FILLING,
    ),
    probe(
        "large-files",
        "make files that claim terabytes and cost nothing, or the other way round",
        """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def sparse():
    with open("sparse", "wb") as file:
        file.truncate(1 << 40)
attempt("a sparse file of 1 TiB", sparse)
def far():
    handle = os.open("far", os.O_CREAT | os.O_WRONLY)
    os.pwrite(handle, b"x", 1 << 33)
attempt("a byte at 8 GiB", far)
def allocate():
    handle = os.open("allocated", os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(handle, 0, 1 << 30)
attempt("allocate 1 GiB", allocate)
""",
        ended=ENDED,
        limits=FILLING,
    ),
    leaving(
        "nested-folders",
        "nest 1500 folders, too deep for a path and for a recursive removal",
        """
import os
for depth in range(1500):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)
with open("deepest", "w") as file:
    file.write("left behind")
""",
        LOOK,
        limits=FILLING,
    ),
    leaving(
        "damage-its-folder",
        "lock, remove or rename its folder, leave names and kinds of files that trip a cleaner",
        probing("""
working = os.getcwd()
os.makedirs("locked/inner")
write("locked/inner/left", "left behind")
os.chmod("locked/inner", 0)
os.chmod("locked", 0)
attempt("removal of its folder", lambda: os.rmdir(working))
attempt("renaming of its folder", lambda: os.rename(working, working + "-old"))
def pin():
    import fcntl
    with open("pinned", "w") as file:
        fcntl.ioctl(file, 0x40086602, (0x10).to_bytes(8, "little"))
attempt("a file that cannot be removed", pin)
names = ["-rf", "..." , "\\x1b[31m", "a\\nb", "\\udcff", "x" * 200]
for name in names:
    attempt("file " + repr(name), lambda: os.close(os.open(name, os.O_CREAT | os.O_WRONLY)))
os.mkfifo("fifo")
with socket.socket(socket.AF_UNIX) as server:
    server.bind("socket")
for index in range(5):
    os.symlink("/", f"root-{index}")
attempt("chmod of its folder", lambda: os.chmod(working, 0))
found = {}
"""),
        LOOK,
        limits=FILLING,
    ),
    leaving(
        "space-held-in-flight",
        "hold disk space by handles that travel between sockets which nobody has",
        probing("""
import tempfile
files = [tempfile.TemporaryFile(dir=os.getcwd()) for _ in range(20)]
for file in files:
    file.write(b"x" * (1 << 20))
    file.flush()
for _ in range(5):
    one, other = socket.socketpair()
    for end in (one, other):
        socket.send_fds(end, [b"x"], [each.fileno() for each in (*files, one, other)])
notice("handles on their way", "20 MiB")
"""),
        """
time.sleep(0.1)
there = os.statvfs(os.getcwd())
used = (there.f_blocks - there.f_bfree) * there.f_frsize
notice("space held by another program", f"{used >> 20} MiB" if used > 2 << 20 else "")
notice("files held by another program", there.f_files - there.f_ffree if 10 < there.f_files - there.f_ffree else "")
""",
        limits=FILLING,
    ),
)
