"""Attacks on a filter that compares numbers: upper halves, flags beside values, unassigned numbers, the runner's process id."""

from components.sandbox.attacks.kinds import probe

HIGH = 0xDEADBEEF << 32
NEW_NAMESPACES = {"user": 0x10000000, "network": 0x40000000, "processes": 0x20000000, "mounts": 0x00020000}
FAMILIES = (2, 10, 16, 17, 38, 40)
OPTIONS = {
    "keep capabilities": 8, "timing": 14, "seccomp": 22, "securebits": 28, "timer slack": 29, "mm": 35, "subreaper": 36,
    "huge pages": 41, "speculation": 53, "io flusher": 57, "syscall dispatch": 59, "core scheduling": 62, "mdwe": 65,
    "merge memory": 67, "name an area": 0x53564D41, "ptracer": 0x59616D61,
}  # fmt: skip
CONTROLS = {"OFD lock": 37, "lease": 1024, "notify": 1026, "owner": 8, "owning thread": 15, "signal": 10, "seals": 1033}
REQUESTS = {
    "TIOCSTI": 0x5412, "FIOASYNC": 0x5452, "FS_IOC_SETFLAGS": 0x40086602, "FIFREEZE": 0xC0045877, "FIBMAP": 1,
    "SIOCGIFCONF": 0x8912, "PIDFD_GET_USER_NAMESPACE": 0xFF0A, "NS_GET_USERNS": 0xB701, "FIDEDUPERANGE": 0xC0189436,
}  # fmt: skip

UPPER = (0, HIGH, 0xFFFFFFFF << 32)
KINDS = (1, 2, 3, 0o2004003)
HALVES = {
    **{
        f"socket {family}, {kind:o}": (41, 198, (HIGH | family, HIGH | kind, 0))
        for family in FAMILIES
        for kind in KINDS
    },
    **{f"limits of {pid}": (302, 261, (pid, 7, "record", 0)) for pid in (1, HIGH | 1)},
    **{f"option {name}": (157, 167, (HIGH | option, 1, 1, 0, 0)) for name, option in OPTIONS.items()},
    **{f"control {name}": (72, 25, ("handle", HIGH | command, "record")) for name, command in CONTROLS.items()},
    **{
        f"request {name}, {upper >> 32:x}": (16, 29, ("handle", upper | request, "record"))
        for name, request in REQUESTS.items()
        for upper in UPPER
    },
    "merge pages": (28, 233, (0, 0, HIGH | 12)),
}
"""By name, the numbers on x86_64 and aarch64 and the arguments; words are places of the program."""

CALLS = {
    # name: (x86_64, aarch64, arguments); 1023 where a processor has none
    "priority of the runner": (141, 140, (0, 1, 19)),
    "priority of the user": (141, 140, (2, 0, 19)),
    "affinity of the runner": (203, 122, (1, 8, 0)),
    "scheduler of the runner": (144, 119, (1, 5, 0)),
    "attributes of the runner": (314, 274, (1, 0, 0)),
    "disk priority of the runner": (251, 30, (1, 1, 0)),
    "advice to the runner": (440, 440, (1, 0, 0, 21, 0)),
    "pages of the runner": (256, 238, (1, 0, 0, 0)),
    "signal with a lie": (129, 138, (1, 9, 0)),
    "group of the runner": (109, 154, (1, 1)),
    "join the runner's group": (109, 154, (0, 1)),
    "clock": (227, 112, (2, 0)),
    "clock, adjusted": (305, 266, (0, 0)),
    "host name": (170, 161, (0, 0)),
    "domain name": (171, 162, (0, 0)),
    "hang up": (153, 58, ()),
    "local descriptors": (154, 1023, (0, 0, 0)),
    "ports": (172, 1023, (3,)),
    "a secret area": (447, 447, (0,)),
    "number 512": (512, 512, ()),
    "number -2": (-2, -2, ()),
    "the last number": (0x7FFFFFFF, 0x7FFFFFFF, ()),
    "x32 clone": (0x40000000 + 56, 1023, (0x10000011, 0, 0, 0, 0)),
    "x32 execveat": (0x40000000 + 545, 1023, (0, 0, 0, 0, 0)),
    "x32 ioctl": (0x40000000 + 514, 1023, (0, 0x5412, 0)),
}


ATTACKS = (
    probe(
        "halves-of-arguments",
        "hide from the filter what an argument says, in its other half or beside flags",
        """
def forked(flags):
    child = call(56, 220, flags, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return child
for name, flag in NEW_NAMESPACES.items():
    attempt("clone " + name, lambda: forked(HIGH | flag | 17))
record = ctypes.create_string_buffer(64)
places = {"handle": os.open("file", os.O_CREAT | os.O_RDWR), "record": ctypes.addressof(record)}
for name, (*numbers, arguments) in HALVES.items():
    attempt(name, lambda: call(*numbers, *(places.get(each, each) for each in arguments)))
""",
        *(f"clone {name}" for name in NEW_NAMESPACES),
        *HALVES,
        HIGH=HIGH,
        NEW_NAMESPACES=NEW_NAMESPACES,
        HALVES=HALVES,
    ),
    probe(
        "reach-the-runner",
        "slow, move, signal or read the runner by its number or a descriptor, and call numbers that no table has",
        """
import signal
for name, (*numbers, arguments) in CALLS.items():
    attempt(name, lambda: call(*numbers, *arguments))
def by_descriptor():
    handle = os.pidfd_open(1)
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
        signal.pidfd_send_signal(handle, number)
    time.sleep(0.05)
    os.kill(1, 0)
    raise OSError(errno.EPERM, "")
attempt("end by descriptor", by_descriptor)
""",
        *CALLS,
        CALLS=CALLS,
    ),
)
