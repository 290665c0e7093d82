"""Attacks on the kernel: system calls that a program does not need, in every way to make them."""

from collections.abc import Sequence

from components.sandbox.attacks.base import PREAMBLE, Attack, Judge, Verdict, ending, probing, report
from components.sandbox.attacks.grading import all_refused
from components.sandbox.attacks.kinds import attack, attempts_in, probe
from components.sandbox.system_calls import numbers
from components.schema import ExecutionResult

BEFORE_THE_KERNEL = ("EPERM", "EACCES", "ENOSYS")
"""What a filter answers. Another error comes from inside the call: the kernel's code was reached."""

CALLS = numbers("""
unshare:272:97 mount:165:40 umount2:166:39 pivot_root:155:41 chroot:161:51 setns:308:268 open_tree:428:428 fsopen:430:430
bpf:321:280 perf_event_open:298:241 keyctl:250:219 add_key:248:217 request_key:249:218 io_uring_setup:425:425
userfaultfd:323:282 kexec_load:246:104 init_module:175:105 finit_module:313:273 open_by_handle_at:304:265 ptrace:101:117
process_vm_readv:310:270 process_vm_writev:311:271 pidfd_getfd:438:438 shmget:29:194 msgget:68:186 semget:64:190
mq_open:240:180 personality:135:92 clock_settime:227:112 adjtimex:159:171 reboot:169:142 swapon:167:224 acct:163:89
syslog:103:116 quotactl:179:60 fanotify_init:300:262 lookup_dcookie:212:18 kcmp:312:272 move_pages:279:239
""")
NEEDLESS = numbers("""
sync:162:81 syncfs:306:267 sync_file_range:277:84 flock:73:32 io_setup:206:0 io_submit:209:2 inotify_init1:294:26
inotify_add_watch:254:27 mincore:27:232 mlock:149:228 mlockall:151:230 remap_file_pages:216:234 readahead:187:213
timer_create:222:107 rt_tgsigqueueinfo:297:240 execveat:322:281 get_robust_list:274:100 ioprio_get:252:31
get_mempolicy:239:236 pkey_alloc:330:289 capget:125:90 vmsplice:278:75 cachestat:451:451 futex_waitv:449:449
landlock_create_ruleset:444:444 openat2:437:437 pidfd_getfd:438:438 process_mrelease:448:448 map_shadow_stack:453:453
statmount:457:457 listmount:458:458 lsm_list_modules:461:461
""")
"""More of them, and calls that came with kernels newer than this table."""
ARGUMENTS = {
    "unshare": (0x10000000,), "io_uring_setup": (1,), "userfaultfd": (1,), "ptrace": (16, 1), "process_vm_readv": (1,),
    "process_vm_writev": (1,), "shmget": (0, 4096, 0o1600), "msgget": (0, 0o1600), "semget": (0, 1, 0o1600),
    "personality": (0x0040000,), "syslog": (3,), "kcmp": (1, 1), "move_pages": (1,), "flock": (0, 1), "io_setup": (1,),
    "mlockall": (1,), "ioprio_get": (1,),
}  # fmt: skip
"""The first arguments of these calls; all others are 0."""

SYSTEM_CALLS = """
for name, numbers in CALLS.items():
    arguments = *ARGUMENTS.get(name, ()), 0, 0, 0, 0, 0, 0
    attempt(name, lambda: call(*numbers, *arguments[:6]))
"""

FRESH = """
inner = PREAMBLE + f'''
for name, numbers in {CALLS!r}.items():
    attempt("after exec: " + name, lambda: call(*numbers, 0x10000000, 0, 0, 0))
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

CONTROLS = (
    ("F_OFD_SETLK", 37, None), ("F_OFD_SETLKW", 38, None), ("F_OFD_GETLK", 36, None), ("F_SETLEASE", 1024, 0),
    ("F_NOTIFY", 1026, 2), ("F_SETOWN", 8, 0), ("F_SETSIG", 10, 10), ("F_SET_RW_HINT", 1036, None), ("F_ADD_SEALS", 1033, 1),
)  # fmt: skip
"""Name, number and argument; None stands for the record of a lock."""
REQUESTS = (
    ("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSCTTY", 0x540E), ("TIOCGPTN", 0x80045430),
    ("FS_IOC_SETFLAGS", 0x40086602), ("FICLONE", 0x40049409), ("FS_IOC_GETVERSION", 0x80087601),
)  # fmt: skip

PAIRS = {"tipc": 30, "inet": 2}
SOCKET_OPTIONS = {
    "SO_ATTACH_FILTER": 26,
    "SO_ATTACH_BPF": 50,
    "SO_ATTACH_REUSEPORT_CBPF": 51,
    "SO_ATTACH_REUSEPORT_EBPF": 52,
}

KINDS = {
    "user": 0x10000000, "pid": 0x20000000, "network": 0x40000000, "mount": 0x00020000, "ipc": 0x08000000,
    "hostname": 0x04000000, "cgroup": 0x02000000,
}  # fmt: skip
TERMINALS = ("/dev/ptmx", "/dev/pts/ptmx", "/dev/tty0", "/dev/console")
LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE")
AFTER_EXEC = {name: CALLS[name] for name in ("unshare", "keyctl", "ptrace", "io_uring_setup")}


def _still_confined(*refusals: str) -> Judge:
    """Either `refusals` were, or the program that was started made the attempts of `FRESH`, and none succeeded."""
    after = [f"after exec: {name}" for name in (*AFTER_EXEC, "without limits")]

    def judge(results: Sequence[ExecutionResult]) -> Verdict:
        (result,) = results
        told = report(result)
        if told is None:
            return Verdict(stopped=False, by=ending(result))
        if told.refused.keys() & set(refusals):
            return all_refused(told, refusals)
        verdict = all_refused(told, after)
        return Verdict(stopped=verdict.stopped, by=f"it ran, as confined as before: {verdict.by}")

    return judge


def _exec(name: str, tries: str, body: str) -> Attack:
    program = probing(FRESH + body, PREAMBLE=PREAMBLE, CALLS=AFTER_EXEC)
    return attack(name, f"{tries}, and try again from there", program, _still_confined(*attempts_in(body)))


ATTACKS = (
    probe(
        "system-calls",
        f"call {len(CALLS)} system calls that no honest program needs, one by one",
        SYSTEM_CALLS,
        *CALLS,
        by=BEFORE_THE_KERNEL,
        CALLS=CALLS,
        ARGUMENTS=ARGUMENTS,
    ),
    probe(
        "needless-calls",
        f"call {len(NEEDLESS)} more system calls: flush all disks, watch files, queue I/O, lock memory, read the page cache",
        SYSTEM_CALLS,
        *NEEDLESS,
        by=BEFORE_THE_KERNEL,
        CALLS=NEEDLESS,
        ARGUMENTS=ARGUMENTS,
    ),
    probe(
        "file-controls",
        "control its files in ways that outlive it or reach others: locks of handles, leases, notices, hints",
        """
import fcntl, struct
handle = os.open("file", os.O_CREAT | os.O_RDWR)
record = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0)
for name, command, argument in CONTROLS:
    attempt(name, lambda: fcntl.fcntl(handle, command, record if argument is None else argument))
attempt("flock", lambda: fcntl.flock(handle, fcntl.LOCK_SH))
for name, request in REQUESTS:
    attempt(name, lambda: fcntl.ioctl(handle, request, bytes(64)))
""",
        *(name for name, *_ in (*CONTROLS, *REQUESTS)),
        by=("EPERM", "EINVAL", "ENOTTY"),
        CONTROLS=CONTROLS,
        REQUESTS=REQUESTS,
    ),
    probe(
        "socket-filters",
        "load programs into the kernel as filters of sockets, pair sockets of other families",
        """
import struct
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
program = struct.pack("HP", 1, ctypes.addressof(code))
for name, family in FAMILIES.items():
    attempt("pair of " + name, lambda: socket.socketpair(family, socket.SOCK_STREAM))
one, other = socket.socketpair()
for name, option in OPTIONS.items():
    attempt(name, lambda: one.setsockopt(socket.SOL_SOCKET, option, program))
""",
        *(f"pair of {name}" for name in PAIRS),
        *SOCKET_OPTIONS,
        by=("EAFNOSUPPORT", "ENOPROTOOPT"),
        FAMILIES=PAIRS,
        OPTIONS=SOCKET_OPTIONS,
    ),
    probe(
        "terminals",
        "get a terminal, of which the machine has few",
        """
import pty
for path in TERMINALS:
    attempt(path, lambda: os.close(os.open(path, os.O_RDWR | os.O_NOCTTY)))
attempt("a terminal of its own", pty.openpty)
""",
        *TERMINALS,
        TERMINALS=TERMINALS,
    ),
    probe(
        "namespaces",
        "get a new namespace, and power in it, from unshare, clone and clone3",
        """
for name, flag in KINDS.items():
    attempt("unshare " + name, lambda: call(272, 97, flag))
    def clone():
        child = call(56, 220, flag | 17, 0, 0, 0, 0)
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
""",
        *(f"{call} {kind}" for kind in KINDS for call in ("unshare", "clone")),
        by=BEFORE_THE_KERNEL,
        KINDS=KINDS,
    ),
    probe(
        "other-call-tables",
        "slip past the filter through the system call tables of other ABIs, from machine code",
        """
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
""",
        "32-bit table",
        "x32 table",
    ),
    probe(
        "become-root",
        "become root, raise a capability, turn the filter off",
        """
attempt("setuid", lambda: os.setuid(0))
attempt("setgid", lambda: os.setgid(0))
attempt("setgroups", lambda: os.setgroups([0]))
attempt("setresuid", lambda: os.setresuid(0, 0, 0))
attempt("raise a capability", lambda: checked(libc.prctl(47, 2, 21, 0, 0)))
attempt("lift no_new_privs", lambda: checked(libc.prctl(38, 0, 0, 0, 0)))
attempt("turn the filter off", lambda: checked(libc.prctl(22, 0, 0, 0, 0)))
""",
    ),
    probe(
        "priority",
        "raise its own limits, priority and chance to survive the OOM killer",
        """
import resource
def higher(name):
    limit = getattr(resource, name)
    resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for name in LIMITS:
    attempt("raise " + name, lambda: higher(name))
attempt("nice -20", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
attempt("real-time scheduling", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("real-time disk", lambda: call(251, 30, 1, 0, 1 << 13))
attempt("be spared by the OOM killer", lambda: write("/proc/self/oom_score_adj", "-1000"))
""",
        *(f"raise {name}" for name in LIMITS),
        LIMITS=LIMITS,
    ),
    probe(
        "core-dumps",
        "set the limit of its core dumps to one under which a kernel pipes them to a program of the host",
        """
import resource
SET, SET_OR_GET, CORE = (160, 164), (302, 261), resource.RLIMIT_CORE
for size in (0, 2, 1 << 20):
    limit = ctypes.create_string_buffer(size.to_bytes(8, "little") * 2)
    attempt(f"setrlimit {size}", lambda: call(*SET, CORE, ctypes.addressof(limit)))
    attempt(f"prlimit {size}", lambda: call(*SET_OR_GET, 0, CORE, ctypes.addressof(limit), 0))
    attempt(f"prlimit of this pid {size}", lambda: call(*SET_OR_GET, os.getpid(), CORE, ctypes.addressof(limit), 0))
notice("another limit", resource.getrlimit(CORE) != (1, 1) and resource.getrlimit(CORE), "1 byte")
""",
        *(f"{name} {size}" for name in ("setrlimit", "prlimit", "prlimit of this pid") for size in (0, 2, 1 << 20)),
    ),
    _exec(
        "exec-fresh-interpreter",
        "leave the runner's process by exec with a huge command line",
        """
interpreter = os.path.realpath("/proc/self/exe")
arguments = [interpreter, "-I", "-S", "-c", inner, "x" * 100000]
variables = {"LD_LIBRARY_PATH": os.getcwd(), "LARGE": "x" * 100000}
attempt("exec the interpreter", lambda: os.execve(interpreter, arguments, variables))
""",
    ),
    _exec(
        "exec-own-file",
        "exec a program that it wrote itself",
        """
import shutil
def run(path):
    shutil.copyfile(os.path.realpath("/proc/self/exe"), path)
    os.chmod(path, 0o755)
    os.execve(path, [path, "-I", "-S", "-c", inner], {"PYTHONHOME": sys.base_prefix})
attempt("exec a file of its own", lambda: run(os.path.join(os.getcwd(), "program")))
""",
    ),
    _exec(
        "exec-from-memory",
        "exec a program that lies in no file system (memfd)",
        """
def run():
    handle = call(319, 279, ctypes.cast(ctypes.c_char_p(b"x"), ctypes.c_void_p).value, 0)
    with open(os.path.realpath("/proc/self/exe"), "rb") as source:
        while block := source.read(1 << 20):
            os.write(handle, block)
    os.execve(handle, ["x", "-I", "-S", "-c", inner], {"PYTHONHOME": sys.base_prefix})
attempt("exec a program in memory", run)
""",
    ),
)
