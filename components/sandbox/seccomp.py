"""The system call filter that every program runs under, whatever the backend filters besides.

A filter is a classic BPF program over the call's number and arguments (seccomp(2), linux/filter.h). It is made here and put in
force by the runner, in process 1 of a box, before the first program; children inherit it and nobody can take it off.
"""

import base64
import errno
import os
import struct
from collections.abc import Sequence
from typing import NamedTuple


class Arch(NamedTuple):
    """What differs between processors: the name in a filter, the column of `DENIED`, and the calls with checked arguments."""

    audit: int
    column: int
    clone: int
    socket: int
    prlimit: int
    prctl: int


ARCHS = {
    "x86_64": Arch(0xC000003E, 0, clone=56, socket=41, prlimit=302, prctl=157),
    "aarch64": Arch(0xC00000B7, 1, clone=220, socket=198, prlimit=261, prctl=167),
}
LAST_KNOWN = 450
"""The newest system call that was looked at. Newer ones do not exist in a box, and libraries fall back to older ones."""
CLONE3 = 435
NEW_NAMESPACES = 0x7E020000
"""All CLONE_NEW flags."""
AF_UNIX = 1
PRCTL_OPTIONS = (1, 3, 4, 15, 16)
"""PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_SET_NAME, PR_GET_NAME."""
_TABLE = """
shmget:29:194 shmat:30:196 shmctl:31:195 shmdt:67:197 semget:64:190 semop:65:193 semctl:66:191 semtimedop:220:192
msgget:68:186 msgsnd:69:189 msgrcv:70:188 msgctl:71:187 mq_open:240:180 mq_unlink:241:181 mq_timedsend:242:182
mq_timedreceive:243:183 mq_notify:244:184 mq_getsetattr:245:185 ptrace:101:117 process_vm_readv:310:270
process_vm_writev:311:271 process_madvise:440:440 kcmp:312:272 pidfd_getfd:438:438 io_uring_setup:425:425
io_uring_enter:426:426 io_uring_register:427:427 userfaultfd:323:282 memfd_create:319:279 memfd_secret:447:447
add_key:248:217 request_key:249:218 keyctl:250:219 unshare:272:97 setns:308:268 mount:165:40 umount2:166:39
pivot_root:155:41 chroot:161:51 open_tree:428:428 move_mount:429:429 fsopen:430:430 fsconfig:431:431 fsmount:432:432
fspick:433:433 mount_setattr:442:442 bpf:321:280 perf_event_open:298:241 name_to_handle_at:303:264
open_by_handle_at:304:265 fanotify_init:300:262 fanotify_mark:301:263 lookup_dcookie:212:18 kexec_load:246:104
kexec_file_load:320:294 init_module:175:105 finit_module:313:273 delete_module:176:106 create_module:174:-1
reboot:169:142 swapon:167:224 swapoff:168:225 acct:163:89 quotactl:179:60 quotactl_fd:443:443 syslog:103:116
nfsservctl:180:42 iopl:172:-1 ioperm:173:-1 modify_ldt:154:-1 personality:135:92 uselib:134:-1 _sysctl:156:-1
vhangup:153:58 setuid:105:146 setgid:106:144 setreuid:113:145 setregid:114:143 setresuid:117:147 setresgid:119:149
setfsuid:122:151 setfsgid:123:152 setgroups:116:159 capset:126:91 sethostname:170:161 setdomainname:171:162
settimeofday:164:170 clock_settime:227:112 clock_adjtime:305:266 adjtimex:159:171 sched_setparam:142:118
sched_setscheduler:144:119 sched_setaffinity:203:122 sched_setattr:314:274 setpriority:141:140 ioprio_set:251:30
mbind:237:235 set_mempolicy:238:237 set_mempolicy_home_node:450:450 migrate_pages:256:238 move_pages:279:239
setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7 removexattr:197:14 lremovexattr:198:15 fremovexattr:199:16
seccomp:317:277 vmsplice:278:75
"""
DENIED = {name: (int(first), int(second)) for name, first, second in (entry.split(":") for entry in _TABLE.split())}
"""Name: number on x86_64 and on aarch64, -1 where there is none."""
Instruction = tuple[int, int, int, int]
"""Code, instructions to skip if true, if false, and the constant."""
_LOAD, _EQUAL, _GREATER, _ANY_BIT, _GIVE = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW: Instruction = (_GIVE, 0, 0, 0x7FFF0000)
_KILL: Instruction = (_GIVE, 0, 0, 0x80000000)
_NUMBER: Instruction = (_LOAD, 0, 0, 0)
_ARCH: Instruction = (_LOAD, 0, 0, 4)
_ARGUMENT: Instruction = (_LOAD, 0, 0, 16)
"""The low half of the first argument."""


def _fail(code: int) -> Instruction:
    return (_GIVE, 0, 0, 0x50000 | code)


def encoded_filter(machine: str | None = None) -> str:
    """The filter of a processor as the runner takes it; empty for one without a table, where the runner refuses to start."""
    arch = ARCHS.get(machine or os.uname().machine)
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in system_call_filter(arch)) if arch else b""
    return base64.b64encode(packed).decode()


def system_call_filter(arch: Arch) -> list[Instruction]:
    """The filter as instructions.

    Refused: shared memory, queues and attributes that outlive a process; looking into or changing other processes; new
    namespaces, mounts and identities; kernel interfaces that plain programs do not need and that had holes; sockets other
    than local ones. Unknown calls, and `clone3`, whose flags no filter can see, do not exist.
    """
    steps = [_ARCH, (_EQUAL, 1, 0, arch.audit), _KILL, _NUMBER]
    steps += [(_GREATER, 0, 1, LAST_KNOWN), _fail(errno.ENOSYS), (_EQUAL, 0, 1, CLONE3), _fail(errno.ENOSYS)]
    steps += _where(arch.clone, [_ARGUMENT, (_ANY_BIT, 0, 1, NEW_NAMESPACES), _fail(errno.EPERM), _ALLOW])
    steps += _where(arch.socket, [_ARGUMENT, (_EQUAL, 1, 0, AF_UNIX), _fail(errno.EAFNOSUPPORT), _ALLOW])
    # Programs run as the user of process 1, and could set its limits, which the next program inherits.
    steps += _where(arch.prlimit, [_ARGUMENT, (_EQUAL, 1, 0, 0), _fail(errno.EPERM), _ALLOW])
    steps += _where(arch.prctl, [_ARGUMENT, *_one_of(PRCTL_OPTIONS), _fail(errno.EPERM), _ALLOW])
    denied = [numbers[arch.column] for numbers in DENIED.values() if numbers[arch.column] >= 0]
    return [*steps, *_one_of(denied), _ALLOW, _fail(errno.EPERM)]


def _where(call: int, steps: list[Instruction]) -> list[Instruction]:
    """Do `steps`, which end in an answer, for one call."""
    return [(_EQUAL, 0, len(steps), call), *steps]


def _one_of(constants: Sequence[int]) -> list[Instruction]:
    """Skip the instruction that follows if the value is one of `constants`."""
    return [(_EQUAL, len(constants) - i, 0, constant) for i, constant in enumerate(constants)]
