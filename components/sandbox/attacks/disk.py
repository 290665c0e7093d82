"""Attacks on the program's own folder: fill it, damage it, nest it beyond cleaning."""

from components.sandbox.attacks.base import SHORT, Attack, Judge, probing
from components.sandbox.attacks.judges import ENDED, nothing_left, refused
from components.schema import Execution, Limits

THEME = "disk"
FILLING = Limits(wall_seconds=6.0, cpu_seconds=4.0, memory_mib=192)

FILL = """
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
"""

FILL_INODES = """
count = 0
def fill():
    global count
    for count in range(100_000):
        os.close(os.open(f"file-{count}", os.O_CREAT | os.O_WRONLY))
attempt("100000 files", fill)
notice("files", "", f"{count} in all")
"""

LARGE_FILE = """
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
"""

NEST = """
import os
for depth in range(1500):
    os.mkdir("d" * 100)
    os.chdir("d" * 100)
with open("deepest", "w") as file:
    file.write("left behind")
"""

LOCK_UP = """
working = os.getcwd()
os.makedirs("locked/inner")
with open("locked/inner/left", "w") as file:
    file.write("left behind")
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
"""

HOLD_SPACE = """
import array, tempfile
files = [tempfile.TemporaryFile(dir=os.getcwd()) for _ in range(20)]
for file in files:
    file.write(b"x" * (1 << 20))
    file.flush()
for _ in range(5):
    one, other = socket.socketpair()
    rights = array.array("i", [file.fileno() for file in files] + [one.fileno(), other.fileno()])
    for end in (one, other):
        end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
notice("handles on their way", "20 MiB")
"""

LOOK_FOR_SPACE = """
time.sleep(0.1)
there = os.statvfs(os.getcwd())
used = (there.f_blocks - there.f_bfree) * there.f_frsize
notice("space held by another program", f"{used >> 20} MiB" if used > 2 << 20 else "")
notice("files held by another program", there.f_files - there.f_ffree if 10 < there.f_files - there.f_ffree else "")
"""

LOOK = """
time.sleep(0.1)
names = os.listdir(os.getcwd())
notice("files of another program", names)
def work():
    with open("mine", "w") as file:
        file.write("x")
    os.mkdir("folder")
    os.rename("mine", "folder/mine")
    os.unlink("folder/mine")
    os.rmdir("folder")
attempt("work in its folder", work)
usable, why = found.pop("work in its folder")
notice("an unusable folder", "" if usable else why)
"""


def _attack(name: str, tries: str, program: str, judge: Judge, *, look: str | None = None) -> Attack:
    jobs = (Execution(program=program, limits=FILLING),)
    looking = None if look is None else Execution(program=probing(look), limits=SHORT)
    return Attack(name=name, theme=THEME, tries=tries, jobs=jobs, judge=judge, look=looking)


ATTACKS = (
    _attack(
        "fill-disk", "write 512 MiB of files", probing(FILL), refused("512 MiB of files", "written", ended=ENDED)
    ),
    _attack(
        "fill-inodes", "make 100000 files", probing(FILL_INODES), refused("100000 files", "files", ended=ENDED)
    ),
    _attack(
        "large-files",
        "make files that claim terabytes and cost nothing, or the other way round",
        probing(LARGE_FILE),
        refused("a sparse file of 1 TiB", "a byte at 8 GiB", "allocate 1 GiB", ended=ENDED),
    ),
    _attack(
        "nested-folders",
        "nest 1500 folders, too deep for a path and for a recursive removal",
        NEST,
        nothing_left("files of another program", "an unusable folder"),
        look=LOOK,
    ),
    _attack(
        "damage-its-folder",
        "lock, remove or rename its folder, leave names and kinds of files that trip a cleaner",
        probing(LOCK_UP),
        nothing_left("files of another program", "an unusable folder"),
        look=LOOK,
    ),
    _attack(
        "space-held-in-flight",
        "hold disk space by handles that travel between sockets which nobody has",
        probing(HOLD_SPACE),
        nothing_left("space held by another program", "files held by another program"),
        look=LOOK_FOR_SPACE,
    ),
)  # fmt: skip
