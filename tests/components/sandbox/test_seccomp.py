"""The filter, run here instruction by instruction."""

import errno
import re
from pathlib import Path

import pytest

from components.sandbox import seccomp
from components.sandbox.seccomp import AF_UNIX, ARCHS, FIRST_NEW, encode_filter, system_call_filter
from components.sandbox.system_calls import ALLOWED, JUDGED

ALLOW, KILL = 0x7FFF0000, 0x80000000
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
MACHINES = sorted(ARCHS)
NEVER = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "mount", "unshare", "setns", "pivot_root", "chroot"),
    *("bpf", "keyctl"),
    *("shmget", "msgget", "semget", "mq_open", "memfd_create", "userfaultfd", "perf_event_open", "open_by_handle_at"),
    *("flock", "sync", "syncfs", "io_setup", "io_uring_setup", "inotify_init1", "mincore", "mlock"),
    *("setuid", "setresuid"),
    *("capset", "seccomp", "personality", "reboot", "clone3", "pidfd_getfd", "kexec_load", "init_module"),
    *("setxattr", "vmsplice"),
    *(
        "sched_setaffinity",
        "sched_setscheduler",
        "setpriority",
        "ioprio_set",
        "process_madvise",
        "move_pages",
        "execveat",
    ),
    *("preadv2", "pwritev2", "fadvise64", "membarrier", "futex_waitv"),
)


def verdict(machine: str, number: int, *arguments: int, audit: int | None = None, keep_sigchld: bool = False) -> int:
    """What the kernel would do: an interpreter of the instructions that the filter uses."""
    arch = ARCHS[machine]
    data = {0: number, 4: arch.audit if audit is None else audit}
    for index, argument in enumerate((*arguments, 0, 0, 0, 0, 0, 0)[:6]):
        data[16 + 8 * index], data[20 + 8 * index] = argument & 0xFFFFFFFF, argument >> 32 & 0xFFFFFFFF
    program, at, loaded = system_call_filter(arch, keep_sigchld=keep_sigchld), 0, 0
    while True:
        code, if_true, if_false, constant = program[at]
        at += 1
        if code == 0x06:
            return constant
        if code == 0x20:
            loaded = data[constant]
            continue
        holds = {0x15: loaded == constant, 0x35: loaded >= constant, 0x45: bool(loaded & constant)}[code]
        at += if_true if holds else if_false


def refusal(code: int) -> int:
    return 0x50000 | code


def judge(machine: str, name: str, *arguments: int, keep_sigchld: bool = False) -> int:
    return verdict(machine, JUDGED[name][ARCHS[machine].column], *arguments, keep_sigchld=keep_sigchld)


def numbers_in(header: Path) -> dict[str, int]:
    """The system calls that a kernel header names. Skips where it is not installed."""
    if not header.exists():
        pytest.skip(f"needs {header}: `apt-get install -y linux-libc-dev`")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    numbers = {name: int(number) for name, number in found}
    return {**numbers, "newfstatat": numbers.get("newfstatat", numbers.get("fstatat", -1))}


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_is_refused_but_those_that_are_named(machine: str) -> None:
    column = ARCHS[machine].column
    allowed = {numbers[column] for numbers in ALLOWED.values()} - {-1}
    looked_at = {numbers[column] for numbers in JUDGED.values()}
    for number in {*range(1000), 0x40000000, 0x40000000 + 39, 0xFFFFFFFF} - looked_at:
        refused = refusal(errno.ENOSYS if number >= FIRST_NEW else errno.EPERM)
        assert verdict(machine, number) == (ALLOW if number in allowed else refused), number


@pytest.mark.parametrize("machine", MACHINES)
def test_no_call_is_named_that_reaches_others_or_outlives_its_program(machine: str) -> None:
    assert not (ALLOWED.keys() | JUDGED.keys()) & set(NEVER)
    numbers = numbers_in(HEADERS[machine])
    for name in NEVER:
        if name in numbers:
            assert verdict(machine, numbers[name]) in (refusal(errno.EPERM), refusal(errno.ENOSYS)), name


@pytest.mark.parametrize("machine", MACHINES)
def test_the_call_table_of_another_processor_ends_the_process(machine: str) -> None:
    for audit in (0, 0x40000003, *(arch.audit for name, arch in ARCHS.items() if name != machine)):
        assert verdict(machine, 39, audit=audit) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_some_calls_are_judged_by_their_arguments(machine: str) -> None:
    eperm, einval, enotty = (refusal(code) for code in (errno.EPERM, errno.EINVAL, errno.ENOTTY))
    assert judge(machine, "clone", 0x01200011) == judge(machine, "clone", 0x003D0F00) == ALLOW  # fork, thread
    for bit in (17, 25, 26, 27, 28, 29, 30):  # mount, cgroup, uts, ipc, user, pid, net
        assert judge(machine, "clone", 1 << bit | 0x11) == eperm
    for call in ("socket", "socketpair"):
        assert judge(machine, call, AF_UNIX) == ALLOW
        for family in (0, 2, 10, 16, 17, 30, 38, 40):  # none, inet, inet6, netlink, packet, tipc, alg, vsock
            assert judge(machine, call, family) == refusal(errno.EAFNOSUPPORT)
    assert (judge(machine, "prlimit64", 0), judge(machine, "prlimit64", 1)) == (ALLOW, eperm)
    for limit in range(16):
        may_be_set = eperm if limit == seccomp.RLIMIT_CORE else ALLOW
        assert judge(machine, "setrlimit", limit, 0x7F00) == judge(machine, "prlimit64", 0, limit, 0x7F00) == may_be_set
        assert judge(machine, "prlimit64", 0, limit, 5 << 32) == may_be_set
        assert judge(machine, "prlimit64", 0, limit, 0) == ALLOW  # asks for it
        assert judge(machine, "prlimit64", 77, limit, 0) == eperm
    assert (judge(machine, "prctl", 15), judge(machine, "prctl", 22)) == (ALLOW, eperm)
    for command in (1, 5, 6, 7, 1030):
        assert judge(machine, "fcntl", 9, command) == ALLOW
    for command in (
        *(8, 10, 36, 37, 38, 1024, 1026, 1033, 1036),
    ):  # owner, signal, locks of handles, lease, notice, seal, hint
        assert judge(machine, "fcntl", 9, command) == einval
    assert (judge(machine, "ioctl", 0, 0x5401), judge(machine, "ioctl", 0, 0x5412)) == (
        ALLOW,
        enotty,
    )  # TCGETS, TIOCSTI
    assert judge(machine, "setsockopt", 3, 1, 7) == ALLOW
    for level, option in ((1, 26), (1, 50), (6, 7), (0, 7)):
        assert judge(machine, "setsockopt", 3, level, option) == refusal(errno.ENOPROTOOPT)
    assert (judge(machine, "madvise", 0, 0, 4), judge(machine, "madvise", 0, 0, 12)) == (ALLOW, einval)


@pytest.mark.parametrize("machine", MACHINES)
def test_programs_wait_and_wake_within_their_own_memory_only(machine: str) -> None:
    for operation in range(14):
        for clock in (0, 256):
            assert judge(machine, "futex", 0, operation | clock | 128) == ALLOW
    for wait in (0, 9, 256, 256 + 9):  # the end of a thread is waited for in this way, by turns with a look at it
        assert judge(machine, "futex", 0, wait) == refusal(errno.EAGAIN)
    for other in (1, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 256 + 11, 1 << 30):
        assert judge(machine, "futex", 0, other) == refusal(errno.EINVAL)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_end_of_children_is_ignored_only_where_their_time_is_kept_elsewhere(machine: str) -> None:
    actions = (0x7F00, 1 << 32, (1 << 32) + 5)
    for action in (0, *actions):
        assert judge(machine, "rt_sigaction", seccomp.SIGCHLD, action) == ALLOW
        assert judge(machine, "rt_sigaction", 2, action, keep_sigchld=True) == ALLOW
    assert (
        judge(machine, "rt_sigaction", seccomp.SIGCHLD, 0, keep_sigchld=True) == ALLOW
    )  # asks for it, and changes nothing
    for action in actions:
        assert judge(machine, "rt_sigaction", seccomp.SIGCHLD, action, keep_sigchld=True) == refusal(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    numbers, column = numbers_in(HEADERS[machine]), ARCHS[machine].column
    for table in (ALLOWED, JUDGED):
        assert {name: row[column] for name, row in table.items()} == {name: numbers.get(name, -1) for name in table}


def test_a_processor_without_a_table_has_no_filter() -> None:
    assert encode_filter("riscv64") == ""
    assert len(encode_filter("x86_64")) > 500
