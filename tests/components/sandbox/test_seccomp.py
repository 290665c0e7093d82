"""The filter, run here instruction by instruction."""

import errno
import re
from pathlib import Path

import pytest

from components.sandbox.seccomp import AF_UNIX, ARCHS, CLONE3, DENIED, LAST_KNOWN, encoded_filter, system_call_filter

ALLOW, KILL = 0x7FFF0000, 0x80000000
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
MACHINES = sorted(ARCHS)


def verdict(machine: str, number: int, argument: int = 0, *, audit: int | None = None) -> int:
    """What the kernel would do: an interpreter of the instructions that the filter uses."""
    arch = ARCHS[machine]
    data = {0: number, 4: arch.audit if audit is None else audit, 16: argument & 0xFFFFFFFF}
    program, at, loaded = system_call_filter(arch), 0, 0
    while True:
        code, if_true, if_false, constant = program[at]
        at += 1
        if code == 0x06:
            return constant
        if code == 0x20:
            loaded = data[constant]
            continue
        holds = {0x15: loaded == constant, 0x25: loaded > constant, 0x45: bool(loaded & constant)}[code]
        at += if_true if holds else if_false


def refusal(code: int) -> int:
    return 0x50000 | code


@pytest.mark.parametrize("machine", MACHINES)
def test_every_denied_call_is_refused_and_every_other_known_one_is_not(machine: str) -> None:
    arch = ARCHS[machine]
    denied = {numbers[arch.column] for numbers in DENIED.values()} - {-1}
    checked = {arch.clone, arch.socket, arch.prlimit, arch.prctl, CLONE3}
    for number in set(range(LAST_KNOWN + 1)) - checked:
        assert verdict(machine, number) == (refusal(errno.EPERM) if number in denied else ALLOW), number


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_nobody_looked_at_do_not_exist(machine: str) -> None:
    for number in (CLONE3, LAST_KNOWN + 1, 1000, 0x40000000, 0x40000000 + 101, 0xFFFFFFFF):
        assert verdict(machine, number) == refusal(errno.ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_call_table_of_another_processor_ends_the_process(machine: str) -> None:
    for audit in (0, 0x40000003, *(arch.audit for name, arch in ARCHS.items() if name != machine)):
        assert verdict(machine, 39, audit=audit) == KILL


@pytest.mark.parametrize("machine", MACHINES)
def test_some_calls_are_judged_by_their_first_argument(machine: str) -> None:
    arch, eperm = ARCHS[machine], refusal(errno.EPERM)
    assert verdict(machine, arch.clone, 0x01200011) == verdict(machine, arch.clone, 0x003D0F00) == ALLOW  # fork, thread
    for bit in (17, 25, 26, 27, 28, 29, 30):  # mount, cgroup, uts, ipc, user, pid, net
        assert verdict(machine, arch.clone, 1 << bit | 0x11) == eperm
    assert verdict(machine, arch.socket, AF_UNIX) == ALLOW
    for family in (0, 2, 10, 16, 17, 38, 40):  # none, inet, inet6, netlink, packet, alg, vsock
        assert verdict(machine, arch.socket, family) == refusal(errno.EAFNOSUPPORT)
    assert (verdict(machine, arch.prlimit, 0), verdict(machine, arch.prlimit, 1)) == (ALLOW, eperm)
    assert (verdict(machine, arch.prctl, 15), verdict(machine, arch.prctl, 22)) == (ALLOW, eperm)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"needs {header}: `apt-get install -y linux-libc-dev`")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    numbers = {name: int(number) for name, number in found}
    arch = ARCHS[machine]
    assert {name: row[arch.column] for name, row in DENIED.items()} == {name: numbers.get(name, -1) for name in DENIED}
    checked = (arch.clone, arch.socket, arch.prlimit, arch.prctl, CLONE3)
    assert checked == tuple(numbers[name] for name in ("clone", "socket", "prlimit64", "prctl", "clone3"))


def test_a_processor_without_a_table_has_no_filter() -> None:
    assert encoded_filter("riscv64") == ""
    assert len(encoded_filter("x86_64")) > 500
