"""Privileges that process 1 of a box drops before the first program. Runs inside the box: standard library only."""

import base64
import ctypes
import os
import resource
import signal
import struct
from typing import Any

TMP = "/tmp"
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 22, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER, LINUX_CAPABILITY_VERSION_3 = 4, 2, 0x20080522
RT_SIGACTION = {"x86_64": 13, "aarch64": 134}
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
MS_NOSUID, MS_NODEV, MS_NOEXEC, M_ARENA_MAX = 2, 4, 8, -8


def harden(settings: dict[str, Any]) -> None:
    """Drop all privileges that programs must not have. Settings: `filter`, the system call filter's instructions in base64;
    `tmp_mib` and `num_tmp_files`, for a box without its own /tmp. Raises OSError if the kernel refuses any of it."""
    heed_signals()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 receives only signals that it handles
    check(LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
    lower(resource.RLIMIT_CORE, 1)  # 0 does not keep the kernel from piping a core dump to a program of the host
    LIBC.mallopt(M_ARENA_MAX, 1)  # an arena per thread would count 64 MiB each against the memory limit
    if "tmp_mib" in settings:
        size = f"size={settings['tmp_mib']}m,nr_inodes={settings['num_tmp_files']},mode=1777"
        check(LIBC.mount(b"tmpfs", TMP.encode(), b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, size.encode()))
    for capability in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused if there is no such capability
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    check(LIBC.capset(struct.pack("Ii", LINUX_CAPABILITY_VERSION_3, 0), bytes(24)))
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    instructions = ctypes.create_string_buffer(base64.b64decode(settings["filter"]))
    program = struct.pack("HP", (len(instructions) - 1) // 8, ctypes.addressof(instructions))
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0))


def heed_signals() -> None:
    """Restore signals that the parent process ignored, which programs would inherit: nohup ignores SIGHUP, and make signal 32,
    which the C library uses. Those that Python itself ignores stay ignored."""
    number, action = RT_SIGACTION.get(os.uname().machine), ctypes.create_string_buffer(32)
    for signal_number in range(1, signal.NSIG if number else 0):
        LIBC.syscall(number, signal_number, None, action, 8)
        ignored = struct.unpack_from("P", action)[0] == signal.SIG_IGN
        if ignored and signal_number not in IGNORED_BY_PYTHON:
            LIBC.syscall(number, signal_number, bytes(32), None, 8)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def lower(limit: int, value: int) -> None:
    """Set a hard and soft resource limit, at most the present hard limit."""
    allowed = resource.getrlimit(limit)[1]
    value = value if allowed == resource.RLIM_INFINITY else min(value, allowed)
    resource.setrlimit(limit, (value, value))
