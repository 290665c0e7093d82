"""Attacks on the host's files, processes, kernel settings and devices."""

from collections.abc import Sequence

from components.sandbox.attacks.base import Attack, Verdict, ending, probing, report
from components.sandbox.attacks.decoys import Bait
from components.sandbox.attacks.kinds import attack, probe
from components.sandbox.box import BOX_UID
from components.sandbox.users import RANGE
from components.schema import ExecutionResult

KNOWN_VARIABLES = (
    "HOME", "LOGNAME", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "HOSTNAME", "PWD", "TMPDIR", "TERM", "SHLVL",
)  # fmt: skip
"""What the environment of a box may hold, beside Python's own switches."""

HOST_PATHS = (
    "/etc/shadow", "/root/.ssh/id_rsa", "/root/.bash_history", "/proc/kcore", "/proc/kmsg", "/proc/1/root/etc/shadow",
    "/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/kvm", "/dev/fuse", "/dev/vsock", "/dev/net/tun",
)  # fmt: skip

SETTINGS_PATHS = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
    "/proc/sys/fs/file-max", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/net/ipv4/ip_forward", "/sys/kernel/uevent_helper",
    "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/irq/0/smp_affinity", "/proc/1/uid_map",
)  # fmt: skip

HOST_FILES = """
for path in PATHS:
    attempt(path, lambda: read(path))
attempt("the way up", lambda: read("../" * 20 + BAIT.lstrip("/")))
"""

PROCESSES = """
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
foreign = []
for pid in pids:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read().replace(b"\\0", b" ").decode(errors="replace").strip()
    except OSError:
        line = "?"
    if len(pids) > 8 or pid > 65536 or "pytest" in line or "flows" in line:
        foreign.append(f"{pid} {line[:40]}")
notice("processes of the host", foreign[:9], f"{len(pids)} processes in sight")
if TRAINER in pids:
    notice("signal the trainer", "", "a process of the box has its number")
else:
    attempt("signal the trainer", lambda: os.kill(TRAINER, 0))
attempt("memory of the trainer", lambda: read(f"/proc/{TRAINER}/mem"))
"""


def _without_rights(results: Sequence[ExecutionResult]) -> Verdict:
    """The program had no capability, no way to gain one, an unprivileged user and filtered system calls."""
    (result,) = results
    told = report(result)
    if told is None:
        return Verdict(stopped=False, by=ending(result))
    facts = told.refused
    powers = {name: facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(facts[name], 16)}
    ids = {int(word) for name in ("Uid", "Gid", "Groups") for word in facts[name].split()}
    nobody = len(ids) == 1 and (BOX_UID in ids or min(ids) in RANGE)
    held = not powers and nobody and (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    names = ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
    return Verdict(stopped=held, by=", ".join(f"{name} {facts[name].split()[0]}" for name in names))


def attacks(bait: Bait) -> tuple[Attack, ...]:
    """All attacks of this theme; `bait` has a file and a process of this machine."""
    paths = (str(bait.file), *HOST_PATHS)
    return (
        probe(
            "host-files",
            "read files of the host: a secret laid out for it, passwords, disks, kernel memory",
            HOST_FILES,
            *paths,
            PATHS=paths,
            BAIT=str(bait.file),
        ),
        probe(
            "host-processes",
            "see, signal and read processes of the host",
            PROCESSES,
            "signal the trainer",
            TRAINER=bait.pid,
        ),
        *_ATTACKS,
    )


_ATTACKS = (
    probe(
        "search-files",
        "search all files in sight for secrets",
        """
num_seen, secrets = 0, []
for root in ("/", "/proc/self/root"):
    for folder, folders, names in os.walk(root):
        if folder.startswith(("/proc", "/sys")) and not root.startswith("/proc"):
            folders.clear()
            continue
        folders[:] = [name for name in folders if name not in ("proc", "sys")]
        num_seen += len(names)
        for name in names:
            if name.startswith("bait-") or name in ("id_rsa", "id_ed25519", ".env", "credentials", "docker.sock"):
                secrets.append(os.path.join(folder, name))
notice("a secret among all files", secrets, f"none among {num_seen} names")
""",
    ),
    probe(
        "environment",
        "find tokens in the environment, its own and the runner's",
        """
foreign = [name for name in os.environ if name not in KNOWN and not name.startswith("PYTHON")]
notice("variables of the host", foreign, "only " + ", ".join(sorted(os.environ)))
with open("/proc/self/environ", "rb") as file:
    names = [line.split(b"=")[0].decode(errors="replace") for line in file.read().split(b"\\0") if b"=" in line]
notice("variables at its start", [name for name in names if name not in KNOWN and not name.startswith("PYTHON")])
attempt("environment of the runner", lambda: read("/proc/1/environ"))
""",
        KNOWN=KNOWN_VARIABLES,
    ),
    probe(
        "kernel-settings",
        "change kernel settings: core_pattern, modprobe, sysrq, the runner's OOM score",
        """
for path in PATHS:
    attempt(path, lambda: rewrite(path))
attempt("/proc/sysrq-trigger", lambda: os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY)))
attempt("/proc/1/oom_score_adj", lambda: write("/proc/1/oom_score_adj", "1000"))
""",
        *SETTINGS_PATHS,
        PATHS=SETTINGS_PATHS,
    ),
    probe(
        "cgroup-escape",
        "leave or raise the box's cgroups, set a release_agent, mount cgroups anew",
        """
roots = [folder for folder, _, names in os.walk("/sys/fs/cgroup") if names or folder == "/sys/fs/cgroup"]
for root in roots[:60]:
    for name in ("release_agent", "memory.limit_in_bytes", "memory.max", "pids.max", "cpu.cfs_quota_us", "cpu.max"):
        if os.path.exists(f"{root}/{name}"):
            attempt(f"{root}/{name}", lambda: rewrite(f"{root}/{name}"))
    for name in ("cgroup.procs", "tasks"):
        if os.path.exists(f"{root}/{name}"):
            attempt(f"{root}/{name}", lambda: write(f"{root}/{name}", "0"))
attempt("make a cgroup", lambda: os.mkdir("/sys/fs/cgroup/troupe-attack"))
def mount(kind):
    ctypes.set_errno(0)
    return checked(libc.mount(b"none", b"/tmp", kind, 0, b"memory"))
attempt("mount cgroup", lambda: mount(b"cgroup"))
attempt("mount cgroup2", lambda: mount(b"cgroup2"))
""",
    ),
    probe(
        "devices",
        "make device files, use devices that a program does not need",
        """
import stat
attempt("mknod a disk", lambda: os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(254, 0)))
attempt("mknod /dev/mem", lambda: os.mknod("mem", stat.S_IFCHR | 0o600, os.makedev(1, 1)))
attempt("a file in /dev", lambda: os.close(os.open("/dev/troupe-attack", os.O_CREAT | os.O_WRONLY)))
attempt("the terminal", lambda: os.close(os.open("/dev/tty", os.O_RDWR)))
odd, allowed = [], {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
for folder, folders, names in os.walk("/dev"):
    for name in names:
        path = os.path.join(folder, name)
        kind = os.lstat(path).st_mode
        if (stat.S_ISBLK(kind) or stat.S_ISCHR(kind)) and name not in allowed and not folder.startswith("/dev/pts"):
            odd.append(path)
notice("more devices", odd)
""",
    ),
    attack(
        "rights",
        "find a capability, another user or unfiltered system calls in its own status",
        probing("""
wanted = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
with open("/proc/self/status") as file:
    facts = dict(line.rstrip("\\n").split(":\\t", 1) for line in file if ":\\t" in line)
for name in wanted:
    notice(name, "", facts.get(name, "?").strip())
"""),
        _without_rights,
    ),
    probe(
        "write-everywhere",
        "write in every folder there is, /dev/shm and /dev/mqueue included",
        """
def leave(folder):
    path = os.path.join(folder, ".troupe-attack")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
    os.unlink(path)
    return "writable"
working = os.path.realpath(os.getcwd())
for folder, folders, _ in os.walk("/"):
    if folder == "/proc" or folder == "/sys" or os.path.realpath(folder) == working:
        folders.clear()
        continue
    attempt(folder, lambda: leave(folder))
refusals = sorted({why for got, why in found.values() if not got})
count = sum(not got for got, _ in found.values())
found = {name: value for name, value in found.items() if value[0]}
notice("write anywhere but in its own folder", "", f"{'/'.join(refusals)} in {count} folders")
""",
    ),
    probe(
        "standard-library",
        "change the standard library, the interpreter or the runner for the programs that come after",
        """
import json.decoder, random
def overwrite(path):
    os.close(os.open(path, os.O_RDWR))
    return path
attempt("a module", lambda: overwrite(json.decoder.__file__))
attempt("its bytecode", lambda: overwrite(json.decoder.__cached__))
attempt("the interpreter", lambda: overwrite(os.path.realpath("/proc/self/exe")))
attempt("chmod a module", lambda: os.chmod(json.decoder.__file__, 0o644))
attempt("rename a module", lambda: os.rename(random.__file__, random.__file__ + ".old"))
attempt("a new module beside it", lambda: os.close(os.open(os.path.dirname(os.__file__) + "/sitecustomize.py",
                                                           os.O_CREAT | os.O_WRONLY)))
attempt("the runner", lambda: overwrite("/runner.py"))
""",
    ),
)
