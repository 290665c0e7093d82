"""The system call filter of every program, in addition to any filter of the backend.

A filter is a classic BPF program over the call's number and arguments (seccomp(2), linux/filter.h). It is made here and
installed by the runner, in process 1 of a box, before the first program; children inherit it and cannot remove it.
"""

import base64
import errno
import os
import struct
from collections.abc import Sequence
from typing import NamedTuple

from components.sandbox.system_calls import ALLOWED, ALLOWED_TO_AGENTS, JUDGED


class Arch(NamedTuple):
    """A processor architecture: its name in a filter, and its column in the tables of system calls."""

    audit: int
    column: int


ARCHS = {"x86_64": Arch(0xC000003E, 0), "aarch64": Arch(0xC00000B7, 1)}
FIRST_NEW = 424
"""From here on, numbers are the same on all processors, and libraries work without these new calls."""
NEW_NAMESPACES = 0x7E020000
"""All CLONE_NEW flags."""
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
PRCTL_OPTIONS = (1, 3, 4, 15, 16)
"""PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_SET_NAME, PR_GET_NAME."""
ARCH_PRCTL_OPTIONS = (0x1001, 0x1002, 0x1003, 0x1004)
"""The segment registers, which the dynamic loader sets."""
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1031, 1032)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL; locks that end with their process (F_GETLK, F_SETLK, F_SETLKW), which databases
need; F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ. Locks that belong to a handle, leases, notices and hints are refused."""
IOCTL_REQUESTS = (0x5401, 0x802C542A, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS and TCGETS2 (is it a terminal?), TIOCGPGRP, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
SOL_SOCKET = 1
SOCKET_OPTIONS = (2, 6, 7, 8, 9, 13, 15, 16, 20, 21, 66, 67)
"""SO_REUSEADDR, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE, SO_LINGER, SO_REUSEPORT, SO_PASSCRED, and timeouts."""
AGENT_PRCTL_OPTIONS = (*PRCTL_OPTIONS, 23, 29, 30, 36, 38, 39)
"""Also PR_CAPBSET_READ, the timer slack, PR_SET_CHILD_SUBREAPER and PR_SET_NO_NEW_PRIVS with its question."""
AGENT_FCNTL_COMMANDS = (*FCNTL_COMMANDS, 36, 37, 38, 1033, 1034)
"""Also locks that belong to a handle, and seals."""
TCP, IPV6 = 6, 41
AGENT_SOCKET_OPTIONS = {SOL_SOCKET: SOCKET_OPTIONS, TCP: (1, 2, 3, 4, 5, 6, 8, 9, 12, 18), IPV6: (26,)}
"""By level; of TCP those on delays, keep-alives and timeouts, of IPv6 IPV6_V6ONLY."""
MADV_MERGEABLE = 12
FUTEX_PRIVATE = 128
FUTEX_WAITS = (0, 9, 256, 265)
"""FUTEX_WAIT and FUTEX_WAIT_BITSET, and each with FUTEX_CLOCK_REALTIME."""
SIGCHLD = 17
RLIMIT_CORE = 4
Instruction = tuple[int, int, int, int]
"""Code, instructions to skip if true, if false, and the constant."""
_LOAD, _EQUAL, _GREATER_OR_EQUAL, _ANY_BIT, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW: Instruction = (_GIVE, 0, 0, 0x7FFF0000)
_KILL: Instruction = (_GIVE, 0, 0, 0x80000000)
_NUMBER: Instruction = (_LOAD, 0, 0, 0)
_ARCH: Instruction = (_LOAD, 0, 0, 4)


def encode_filter(machine: str | None = None, *, keep_sigchld: bool = False, for_agents: bool = False) -> str:
    """The filter of a processor in base64; empty for one without a table, where the runner refuses to start."""
    arch = ARCHS.get(machine or os.uname().machine)
    steps = system_call_filter(arch, keep_sigchld=keep_sigchld, for_agents=for_agents) if arch else []
    return base64.b64encode(b"".join(struct.pack("=HBBI", *step) for step in steps)).decode()


def system_call_filter(arch: Arch, *, keep_sigchld: bool = False, for_agents: bool = False) -> list[Instruction]:
    """The filter as instructions; `for_agents`, of boxes with a network of their own, which has nothing but a loopback.

    Calls outside the tables fail with EPERM, and new ones with ENOSYS: libraries then use an older call. Among these is
    `clone3`, whose flags no filter can read. With `keep_sigchld` no program can change the action of SIGCHLD: where it is
    ignored, the CPU time of children that nobody waits for is lost.
    """
    steps = [_ARCH, (_EQUAL, 1, 0, arch.audit), _KILL, _NUMBER]
    allowed = {**ALLOWED, **ALLOWED_TO_AGENTS} if for_agents else ALLOWED
    judgements = _judgements(keep_sigchld=keep_sigchld) | (_judgements_of_agents() if for_agents else {})
    for number in sorted(numbers[arch.column] for numbers in allowed.values()):
        if number >= 0:
            steps += [(_EQUAL, 0, 1, number), _ALLOW]
    for name, judgement in judgements.items():
        number = JUDGED[name][arch.column]
        if number >= 0:
            steps += [(_EQUAL, 0, len(judgement), number), *judgement]
    return [*steps, (_GREATER_OR_EQUAL, 0, 1, FIRST_NEW), _fail(errno.ENOSYS), _fail(errno.EPERM)]


def _judgements(*, keep_sigchld: bool) -> dict[str, list[Instruction]]:
    """The instructions for calls that depend on their arguments, by name. Each list ends in an answer."""
    return {
        "clone": [_argument(0), (_ANY_BIT, 0, 1, NEW_NAMESPACES), _fail(errno.EPERM), _ALLOW],
        "socket": _only(0, (AF_UNIX,), errno.EAFNOSUPPORT),
        "socketpair": _only(0, (AF_UNIX,), errno.EAFNOSUPPORT),
        "setrlimit": [_argument(0), (_EQUAL, 0, 1, RLIMIT_CORE), _fail(errno.EPERM), _ALLOW],
        "prlimit64": _prlimit(),
        "prctl": _only(0, PRCTL_OPTIONS, errno.EPERM),
        "arch_prctl": _only(0, ARCH_PRCTL_OPTIONS, errno.EINVAL),
        "fcntl": _only(1, FCNTL_COMMANDS, errno.EINVAL),
        "ioctl": _only(1, IOCTL_REQUESTS, errno.ENOTTY),
        "setsockopt": [
            *(_argument(1), (_EQUAL, 1, 0, SOL_SOCKET), _fail(errno.ENOPROTOOPT)),
            *_only(2, SOCKET_OPTIONS, errno.ENOPROTOOPT),
        ],
        "madvise": [_argument(2), (_EQUAL, 0, 1, MADV_MERGEABLE), _fail(errno.EINVAL), _ALLOW],
        # Boxes share the pages of files, so one could wake another. The C library waits for the end of a thread by a shared
        # futex, and checks again on EAGAIN.
        "futex": [
            *(_argument(1), (_ANY_BIT, 0, 1, FUTEX_PRIVATE), _ALLOW),
            *((_EQUAL, len(FUTEX_WAITS) - i, 0, wait) for i, wait in enumerate(FUTEX_WAITS)),
            *(_fail(errno.EINVAL), _fail(errno.EAGAIN)),
        ],
        "rt_sigaction": _sigaction() if keep_sigchld else [_ALLOW],
    }


def _judgements_of_agents() -> dict[str, list[Instruction]]:
    """Those that are wider for agents: TCP over loopback, locks of handles, and futexes on shared pages."""
    return {
        "socket": _only(0, (AF_UNIX, AF_INET, AF_INET6), errno.EAFNOSUPPORT),
        "prctl": _only(0, AGENT_PRCTL_OPTIONS, errno.EPERM),
        "fcntl": _only(1, AGENT_FCNTL_COMMANDS, errno.EINVAL),
        "setsockopt": [
            step
            for level, options in AGENT_SOCKET_OPTIONS.items()
            for judged in [_only(2, options, errno.ENOPROTOOPT)]
            for step in (_argument(1), (_EQUAL, 0, len(judged), level), *judged)
        ]
        + [_fail(errno.ENOPROTOOPT)],
        "futex": [_ALLOW],
    }


def _prlimit() -> list[Instruction]:
    """Allow all but a new core limit (a non-null pointer), and the limits of other processes: programs run as the user of
    process 1, and could set its limits for the next program."""
    return [
        *(_argument(0), (_EQUAL, 0, 8, 0)),
        *(_argument(1), (_EQUAL, 1, 0, RLIMIT_CORE), _ALLOW),
        *(_argument(2), (_EQUAL, 0, 3, 0)),
        *(_argument(2, high=True), (_EQUAL, 0, 1, 0), _ALLOW),
        _fail(errno.EPERM),
    ]


def _sigaction() -> list[Instruction]:
    """Allow all but a new action (a non-null pointer) for SIGCHLD."""
    return [
        *(_argument(0), (_EQUAL, 1, 0, SIGCHLD), _ALLOW),
        *(_argument(1), (_EQUAL, 0, 3, 0)),
        *(_argument(1, high=True), (_EQUAL, 0, 1, 0), _ALLOW),
        _fail(errno.EPERM),
    ]


def _argument(index: int, *, high: bool = False) -> Instruction:
    """Load the low or high half of an argument: both processors are little-endian."""
    return (_LOAD, 0, 0, 16 + 8 * index + 4 * high)


def _only(index: int, constants: Sequence[int], code: int) -> list[Instruction]:
    """Allow the call if the low half of this argument is one of `constants`; else fail."""
    equals = [(_EQUAL, len(constants) - i, 0, constant) for i, constant in enumerate(constants)]
    return [_argument(index), *equals, _fail(code), _ALLOW]


def _fail(code: int) -> Instruction:
    return (_GIVE, 0, 0, 0x50000 | code)
