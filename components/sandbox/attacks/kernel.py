"""Attacks on the kernel: system calls that a program does not need, by every door that leads to them."""

from collections.abc import Sequence

from components.sandbox.attacks.base import PREAMBLE, SHORT, Attack, Judge, Verdict, ending, probing, report
from components.sandbox.attacks.judges import all_refused, refused
from components.schema import Execution, ExecutionResult

THEME = "kernel"
BEFORE_THE_KERNEL = ("EPERM", "EACCES", "ENOSYS")
"""What a filter answers. Another error comes from inside the call: the kernel's code was reached."""

CALLS = {
    # name: (x86_64, aarch64, arguments)
    "unshare": (272, 97, (0x10000000,)),
    "mount": (165, 40, (0, 0, 0, 0, 0)),
    "umount2": (166, 39, (0, 0)),
    "pivot_root": (155, 41, (0, 0)),
    "chroot": (161, 51, (0,)),
    "setns": (308, 268, (0, 0)),
    "open_tree": (428, 428, (0, 0, 0)),
    "fsopen": (430, 430, (0, 0)),
    "bpf": (321, 280, (0, 0, 0)),
    "perf_event_open": (298, 241, (0, 0, 0, 0, 0)),
    "keyctl": (250, 219, (0, 0, 0, 0, 0)),
    "add_key": (248, 217, (0, 0, 0, 0, 0)),
    "request_key": (249, 218, (0, 0, 0, 0)),
    "io_uring_setup": (425, 425, (1, 0)),
    "userfaultfd": (323, 282, (1,)),
    "kexec_load": (246, 104, (0, 0, 0, 0)),
    "init_module": (175, 105, (0, 0, 0)),
    "finit_module": (313, 273, (0, 0, 0)),
    "open_by_handle_at": (304, 265, (0, 0, 0)),
    "ptrace": (101, 117, (16, 1, 0, 0)),
    "process_vm_readv": (310, 270, (1, 0, 0, 0, 0, 0)),
    "process_vm_writev": (311, 271, (1, 0, 0, 0, 0, 0)),
    "pidfd_getfd": (438, 438, (0, 0, 0)),
    "shmget": (29, 194, (0, 4096, 0o1600)),
    "msgget": (68, 186, (0, 0o1600)),
    "semget": (64, 190, (0, 1, 0o1600)),
    "mq_open": (240, 180, (0, 0, 0, 0)),
    "personality": (135, 92, (0x0040000,)),
    "clock_settime": (227, 112, (0, 0)),
    "adjtimex": (159, 171, (0,)),
    "reboot": (169, 142, (0, 0, 0, 0)),
    "swapon": (167, 224, (0, 0)),
    "acct": (163, 89, (0,)),
    "syslog": (103, 116, (3, 0, 0)),
    "quotactl": (179, 60, (0, 0, 0, 0)),
    "fanotify_init": (300, 262, (0, 0)),
    "lookup_dcookie": (212, 18, (0, 0, 0)),
    "kcmp": (312, 272, (1, 1, 0, 0, 0)),
    "move_pages": (279, 239, (1, 0, 0, 0, 0, 0)),
}

NEEDLESS = {
    "sync": (162, 81, ()),
    "syncfs": (306, 267, (0,)),
    "sync_file_range": (277, 84, (0, 0, 0, 0)),
    "flock": (73, 32, (0, 1)),
    "io_setup": (206, 0, (1, 0)),
    "io_submit": (209, 2, (0, 0, 0)),
    "inotify_init1": (294, 26, (0,)),
    "inotify_add_watch": (254, 27, (0, 0, 0)),
    "mincore": (27, 232, (0, 0, 0)),
    "mlock": (149, 228, (0, 0)),
    "mlockall": (151, 230, (1,)),
    "remap_file_pages": (216, 234, (0, 0, 0, 0, 0)),
    "readahead": (187, 213, (0, 0, 0)),
    "timer_create": (222, 107, (0, 0, 0)),
    "rt_tgsigqueueinfo": (297, 240, (0, 0, 0, 0)),
    "execveat": (322, 281, (0, 0, 0, 0, 0)),
    "get_robust_list": (274, 100, (0, 0, 0)),
    "ioprio_get": (252, 31, (1, 0)),
    "get_mempolicy": (239, 236, (0, 0, 0, 0, 0)),
    "pkey_alloc": (330, 289, (0, 0)),
    "capget": (125, 90, (0, 0)),
    "vmsplice": (278, 75, (0, 0, 0, 0)),
    "cachestat": (451, 451, (0, 0, 0, 0)),
    "futex_waitv": (449, 449, (0, 0, 0, 0, 0)),
    "landlock_create_ruleset": (444, 444, (0, 0, 0)),
    "openat2": (437, 437, (0, 0, 0, 0)),
    "pidfd_getfd": (438, 438, (0, 0, 0)),
    "process_mrelease": (448, 448, (0, 0)),
    "map_shadow_stack": (453, 453, (0, 0, 0)),
    "statmount": (457, 457, (0, 0, 0, 0)),
    "listmount": (458, 458, (0, 0, 0, 0)),
    "lsm_list_modules": (461, 461, (0, 0, 0)),
}
"""These, too, and calls that came with kernels newer than this table's."""

SYSTEM_CALLS = """
column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
for name, numbers in CALLS.items():
    attempt(name, lambda: syscall(numbers[column], *numbers[2]))
"""

FRESH = """
pairs = [("unshare", 272, 97), ("keyctl", 250, 219), ("ptrace", 101, 117), ("io_uring_setup", 425, 425)]
column = 1 if os.uname().machine == "x86_64" else 2
inner = PREAMBLE + f'''
for name, number in {[(pair[0], pair[column]) for pair in pairs]!r}:
    attempt("after exec: " + name, lambda: syscall(number, 0x10000000, 0, 0, 0))
def raise_limit():
    import resource
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE):
        if resource.getrlimit(limit)[1] == resource.RLIM_INFINITY:
            return "without limits"
    raise OSError(errno.EPERM, "")
attempt("after exec: without limits", raise_limit)
tell()
'''
"""

EXEC_FRESH = (
    FRESH
    + """
interpreter = os.path.realpath("/proc/self/exe")
arguments = [interpreter, "-I", "-S", "-c", inner, "x" * 100000]
variables = {"LD_LIBRARY_PATH": os.getcwd(), "LARGE": "x" * 100000}
attempt("exec the interpreter", lambda: os.execve(interpreter, arguments, variables))
"""
)

EXEC_FILE = (
    FRESH
    + """
import shutil
def run(path):
    shutil.copyfile(os.path.realpath("/proc/self/exe"), path)
    os.chmod(path, 0o755)
    os.execve(path, [path, "-I", "-S", "-c", inner], {"PYTHONHOME": sys.base_prefix})
attempt("exec a file of its own", lambda: run(os.path.join(os.getcwd(), "program")))
"""
)

EXEC_MEMORY = (
    FRESH
    + """
def run():
    handle = syscall({"x86_64": 319, "aarch64": 279}[os.uname().machine],
                     ctypes.cast(ctypes.c_char_p(b"x"), ctypes.c_void_p).value, 0)
    with open(os.path.realpath("/proc/self/exe"), "rb") as source:
        while block := source.read(1 << 20):
            os.write(handle, block)
    os.execve(handle, ["x", "-I", "-S", "-c", inner], {"PYTHONHOME": sys.base_prefix})
attempt("exec a program in memory", run)
"""
)

OTHER_TABLES = """
import mmap
def machine_code(code):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    act = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    result = act()
    if result < 0:
        raise OSError(-result, "")
    return result
def in_child(act):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = f"got {act()}"
        except OSError as error:
            told = errno.errorcode.get(error.errno, "?")
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    status = os.waitpid(child, 0)[1]
    told = os.read(reader, 100).decode()
    if os.WIFSIGNALED(status):
        import signal
        raise OSError(signal.Signals(os.WTERMSIG(status)).name)
    if not told.startswith("got"):
        raise OSError(told)
    return told
if os.uname().machine == "x86_64":
    # mov eax, 20 (getpid of the 32-bit table); int 0x80; ret
    attempt("32-bit table", lambda: in_child(lambda: machine_code(bytes.fromhex("b814000000cd80c3"))))
    # the table of the x32 ABI: getpid is 0x40000000 + 39
    attempt("x32 table", lambda: in_child(lambda: syscall(0x40000000 + 39)))
else:
    notice("32-bit table", "", "this processor has none")
    notice("x32 table", "", "this processor has none")
"""

FILE_CONTROLS = """
import fcntl, struct
handle = os.open("file", os.O_CREAT | os.O_RDWR)
record = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
for name, command, argument in CONTROLS:
    attempt(name, lambda: fcntl.fcntl(handle, command, record if argument is None else argument))
attempt("flock", lambda: fcntl.flock(handle, fcntl.LOCK_SH))
for name, request in REQUESTS:
    attempt(name, lambda: fcntl.ioctl(handle, request, bytes(64)))
"""
CONTROLS = (
    ("F_OFD_SETLK", 37, None), ("F_OFD_SETLKW", 38, None), ("F_OFD_GETLK", 36, None), ("F_SETLEASE", 1024, 0),
    ("F_NOTIFY", 1026, 2), ("F_SETOWN", 8, 0), ("F_SETSIG", 10, 10), ("F_SET_RW_HINT", 1036, None), ("F_ADD_SEALS", 1033, 1),
)  # fmt: skip
"""By the number of each; no argument stands for a record of a lock."""
REQUESTS = (
    ("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSCTTY", 0x540E), ("TIOCGPTN", 0x80045430),
    ("FS_IOC_SETFLAGS", 0x40086602), ("FICLONE", 0x40049409), ("FS_IOC_GETVERSION", 0x80087601),
)  # fmt: skip

SOCKET_FILTERS = """
import struct
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
program = struct.pack("HP", 1, ctypes.addressof(code))
for name, family in FAMILIES.items():
    attempt("pair of " + name, lambda: socket.socketpair(family, socket.SOCK_STREAM))
one, other = socket.socketpair()
for name, option in OPTIONS.items():
    attempt(name, lambda: one.setsockopt(socket.SOL_SOCKET, option, program))
"""
PAIRS = {"tipc": 30, "inet": 2}
SOCKET_OPTIONS = {
    "SO_ATTACH_FILTER": 26,
    "SO_ATTACH_BPF": 50,
    "SO_ATTACH_REUSEPORT_CBPF": 51,
    "SO_ATTACH_REUSEPORT_EBPF": 52,
}

TERMINALS = """
import pty
for path in ("/dev/ptmx", "/dev/pts/ptmx", "/dev/tty0", "/dev/console"):
    attempt(path, lambda: os.close(os.open(path, os.O_RDWR | os.O_NOCTTY)))
attempt("a terminal of its own", pty.openpty)
"""

NAMESPACES = """
kinds = {"user": 0x10000000, "pid": 0x20000000, "network": 0x40000000, "mount": 0x00020000, "ipc": 0x08000000,
         "hostname": 0x04000000, "cgroup": 0x02000000}
x86 = os.uname().machine == "x86_64"
for name, flag in kinds.items():
    attempt("unshare " + name, lambda: syscall(272 if x86 else 97, flag))
    def clone():
        child = syscall(56 if x86 else 220, flag | 17, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        return child
    attempt("clone " + name, clone)
def clone3():
    import struct
    arguments = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
    child = syscall(435, ctypes.addressof(arguments), 88)
    if child == 0:
        os._exit(0)
    return child
attempt("clone3 user", clone3)
"""
KINDS = ("user", "pid", "network", "mount", "ipc", "hostname", "cgroup")

BECOME_ROOT = """
attempt("setuid", lambda: os.setuid(0))
attempt("setgid", lambda: os.setgid(0))
attempt("setgroups", lambda: os.setgroups([0]))
attempt("setresuid", lambda: os.setresuid(0, 0, 0))
attempt("raise a capability", lambda: checked(libc.prctl(47, 2, 21, 0, 0)))
attempt("lift no_new_privs", lambda: checked(libc.prctl(38, 0, 0, 0, 0)))
attempt("turn the filter off", lambda: checked(libc.prctl(22, 0, 0, 0, 0)))
"""

PRIORITY = """
import resource
def higher(name):
    limit = getattr(resource, name)
    resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE"):
    attempt("raise " + name, lambda: higher(name))
attempt("nice -20", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
attempt("real-time scheduling", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("real-time disk", lambda: syscall({"x86_64": 251, "aarch64": 30}[os.uname().machine], 1, 0, 1 << 13))
def spare():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")
attempt("be spared by the OOM killer", spare)
"""

AFTER_EXEC = tuple(
    f"after exec: {name}" for name in ("unshare", "keyctl", "ptrace", "io_uring_setup", "without limits")
)


def _still_confined(*refusals: str) -> Judge:
    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        (result,) = results
        told = report(result)
        if told is None:
            return Verdict(stopped=False, by=ending(result))
        if told.refused.keys() & set(refusals):
            return all_refused(told, refusals)
        verdict = all_refused(told, AFTER_EXEC)
        return Verdict(stopped=verdict.stopped, by=f"it ran, as confined as before: {verdict.by}")

    return judge


def _attack(name: str, tries: str, program: str, judge: Judge) -> Attack:
    return Attack(name=name, theme=THEME, tries=tries, jobs=(Execution(program=program, limits=SHORT),), judge=judge)


ATTACKS = (
    _attack(
        "system-calls",
        f"call {len(CALLS)} system calls that no honest program needs, one by one",
        probing(SYSTEM_CALLS, CALLS=CALLS),
        refused(*CALLS, by=BEFORE_THE_KERNEL),
    ),
    _attack(
        "needless-calls",
        f"call {len(NEEDLESS)} more system calls: flush all disks, watch files, queue I/O, lock memory, read the page cache",
        probing(SYSTEM_CALLS, CALLS=NEEDLESS),
        refused(*NEEDLESS, by=BEFORE_THE_KERNEL),
    ),
    _attack(
        "file-controls",
        "control its files in ways that outlive it or reach others: locks of handles, leases, notices, hints",
        probing(FILE_CONTROLS, CONTROLS=CONTROLS, REQUESTS=REQUESTS),
        refused("flock", *(name for name, *_ in (*CONTROLS, *REQUESTS)), by=("EPERM", "EINVAL", "ENOTTY")),
    ),
    _attack(
        "socket-filters",
        "load programs into the kernel as filters of sockets, pair sockets of other families",
        probing(SOCKET_FILTERS, FAMILIES=PAIRS, OPTIONS=SOCKET_OPTIONS),
        refused(*(f"pair of {name}" for name in PAIRS), *SOCKET_OPTIONS, by=("EAFNOSUPPORT", "ENOPROTOOPT")),
    ),
    _attack(
        "terminals",
        "get a terminal, of which the machine has few",
        probing(TERMINALS),
        refused("/dev/ptmx", "/dev/pts/ptmx", "/dev/tty0", "/dev/console", "a terminal of its own"),
    ),
    _attack(
        "namespaces",
        "get a new namespace, and power in it, from unshare, clone and clone3",
        probing(NAMESPACES),
        refused(*(f"{call} {kind}" for kind in KINDS for call in ("unshare", "clone")), "clone3 user", by=BEFORE_THE_KERNEL),
    ),
    _attack(
        "other-call-tables",
        "slip past the filter through the system call tables of other ABIs, from machine code",
        probing(OTHER_TABLES),
        refused("32-bit table", "x32 table"),
    ),
    _attack(
        "become-root",
        "become root, raise a capability, turn the filter off",
        probing(BECOME_ROOT),
        refused(
            "setuid", "setgid", "setgroups", "setresuid", "raise a capability", "lift no_new_privs", "turn the filter off"
        ),
    ),
    _attack(
        "priority",
        "raise its own limits, priority and chance to survive the OOM killer",
        probing(PRIORITY),
        refused(
            *(f"raise {name}" for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE")),
            "nice -20", "real-time scheduling", "real-time disk", "be spared by the OOM killer",
        ),
    ),
    _attack(
        "exec-fresh-interpreter",
        "leave the runner's process by exec with a huge command line, and try again from there",
        probing(EXEC_FRESH, PREAMBLE=PREAMBLE),
        _still_confined("exec the interpreter"),
    ),
    _attack(
        "exec-own-file",
        "exec a program that it wrote itself, and try again from there",
        probing(EXEC_FILE, PREAMBLE=PREAMBLE),
        _still_confined("exec a file of its own"),
    ),
    _attack(
        "exec-from-memory",
        "exec a program that lies in no file system (memfd), and try again from there",
        probing(EXEC_MEMORY, PREAMBLE=PREAMBLE),
        _still_confined("exec a program in memory"),
    ),
)  # fmt: skip
