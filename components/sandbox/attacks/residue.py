"""Attacks from one program on the next by other means than files: names, times, and what a process inherits."""

import json
from collections.abc import Sequence

from components.sandbox.attacks.base import Verdict, ending, probing, report
from components.sandbox.attacks.grading import where
from components.sandbox.attacks.kinds import leaving
from components.sandbox.attacks.searches import LOOK_FOR_PROCESSES, MEMORY_SEARCH
from components.schema import ExecutionResult

NUMBER = 73_915_284
"""The first programs leave this number plus 1, which is in the text of no program."""


def _times_are_gone(results: Sequence[ExecutionResult]) -> Verdict:
    """No timestamp that the first program made is visible to a later one in the same box."""
    first, *looks = results
    told = report(first)
    if told is None:
        return Verdict(stopped=False, by=ending(first))
    made = set(json.loads(first.stdout.splitlines()[-2]))
    seen = [(found, json.loads(found.refused["times"])) for look in looks if (found := report(look)) is not None]
    if len(seen) < len(looks) or not made:
        return Verdict(stopped=False, by="; ".join(map(ending, looks)))
    left = [moment for found, moments in seen for moment in moments if found.box == told.box and moment in made]
    if left:
        return Verdict(stopped=False, by=f"{len(left)} of its times are still there")
    return Verdict(stopped=True, by=f"none of {len(made)} times; {where(told, [found for found, _ in seen])}")


ATTACKS = (
    leaving(
        "names-in-memory",
        "leave the names of its files in the memory that the next program inherits",
        probing(
            """
for index in range(1500):
    os.close(os.open(f"TRP-NAME-{NUMBER + 1}-{index:04}" + "n" * 150, os.O_CREAT | os.O_WRONLY))
os.mkdir(f"TRP-NAME-{NUMBER + 1}")
libc.prctl(15, f"TRP-{NUMBER + 1}".encode(), 0, 0, 0)
""",
            NUMBER=NUMBER,
        ),
        f"""
{MEMORY_SEARCH}
hits, where = seen_in_memory(rb"TRP-(?:NAME-)?(\\d{{8}})")
notice("names of another program's files", str(NUMBER + 1) in hits, where)
""",
        NUMBER=NUMBER,
    ),
    leaving(
        "times-of-folders",
        "leave a message in the times of folders and links that all programs see",
        probing("""
time.sleep(0.05)  # times of files are some milliseconds behind
began = time.time_ns()
time.sleep(0.02)
def mark(path):
    made = os.path.join(path, "made")
    os.close(os.open(made, os.O_CREAT | os.O_WRONLY))
    os.unlink(made)
attempt("a file made", lambda: mark(os.getcwd()))
with os.scandir("/dev") as entries:
    for entry in entries:
        if entry.is_symlink():
            os.readlink(entry.path)
mine = []
for folder in ("/tmp", "/dev", *("/dev/" + name for name in os.listdir("/dev"))):
    status = os.lstat(folder)
    mine += [status.st_mtime_ns, status.st_atime_ns]
time.sleep(0.05)
found = {"times": [False, "left"]}
print(json.dumps([moment for moment in mine if moment > began]))
"""),
        """
seen = []
for path in ("/tmp", "/dev", *("/dev/" + name for name in os.listdir("/dev"))):
    status = os.lstat(path)
    seen += [status.st_mtime_ns, status.st_atime_ns]
found["times"] = [False, json.dumps(seen)]
""",
        judge=_times_are_gone,
    ),
    leaving(
        "inherited-state",
        "leave signals, limits, timers, masks and names that the next program inherits",
        probing("""
import resource, signal
for number in signal.valid_signals():
    outcome(lambda: signal.signal(number, signal.SIG_IGN))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM})
needed = (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)
for limit in range(16):
    value = resource.getrlimit(limit)[0] - 1 if limit in needed else 0
    outcome(lambda: resource.setrlimit(limit, (value, value)))
outcome(lambda: os.umask(0o777))
outcome(lambda: os.nice(19))
outcome(lambda: os.sched_setaffinity(0, {0}))
outcome(lambda: os.sched_setaffinity(1, {0}))
outcome(lambda: os.setpgid(0, 1))
outcome(lambda: call(135, 92, 0x0040000))
signal.setitimer(signal.ITIMER_REAL, 60)
for path, text in {"timerslack_ns": "123456789", "coredump_filter": "7f", "comm": "changed", "oom_score_adj": "999",
                   "task/1/comm": "changed", "loginuid": "7"}.items():
    for process in ("self", "1"):
        outcome(lambda: write(f"/proc/{process}/{path}", text))
found = {}
"""),
        """
import resource, signal
with open("/proc/self/status") as file:
    facts = dict(line.rstrip("\\n").split(":\\t", 1) for line in file if ":\\t" in line)
notice("blocked or pending signals", int(facts["SigBlk"], 16) | int(facts["SigPnd"], 16) | int(facts["ShdPnd"], 16))
ignored = int(facts["SigIgn"], 16) & ~(1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
notice("ignored signals", hex(ignored) if ignored else "")
limits = [limit for limit in range(16) if resource.getrlimit(limit)[1] == 0]
expected = ("CORE", "MEMLOCK", "MSGQUEUE", "NICE", "RTPRIO")
notice("limits", set(limits) - {getattr(resource, "RLIMIT_" + name) for name in expected})
notice("a mask", os.umask(0o022) == 0o777)
notice("nice", os.getpriority(os.PRIO_PROCESS, 0) != os.getpriority(os.PRIO_PROCESS, 1))
notice("a timer", signal.getitimer(signal.ITIMER_REAL)[0])
others = {}
for path in ("timerslack_ns", "comm", "coredump_filter"):
    try:
        with open(f"/proc/self/{path}") as file:
            others[path] = file.read().strip()
    except OSError:
        pass
notice("settings", [each for each in others.values() if each in ("123456789", "changed", "0000007f")])
with open("/proc/1/comm") as file:
    notice("the runner's name", "changed" in file.read())
notice("its score", int(open("/proc/self/oom_score_adj").read()) != 1000)
""",
        "the runner's name",
    ),
    leaving(
        "start-up-files",
        "leave files and variables that an interpreter obeys at its start",
        probing("""
text = "import os; os.write(1, b'STARTED-BY-ANOTHER')\\n"
version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
PLACES = ((f".local/lib/{version}/site-packages", "usercustomize.py"), (f".local/lib/{version}/site-packages", "x.pth"),
          (f"lib/{version}/site-packages", "x.pth"), ("", "sitecustomize.py"), ("", "pyvenv.cfg"), ("", ".pythonrc.py"))
for home in (os.environ.get("HOME", "/tmp"), os.getcwd(), os.path.dirname(os.__file__)):
    for place, name in PLACES:
        outcome(lambda: os.makedirs(os.path.join(home, place), exist_ok=True))
        outcome(lambda: write(os.path.join(home, place, name), text))
os.environ.update(LD_PRELOAD="/tmp/x.so", PYTHONSTARTUP="/tmp/.pythonrc.py", PYTHONPATH="/tmp", PYTHONUSERBASE="/tmp/.local")
found = {}
"""),
        """
import subprocess
told = subprocess.run(["/usr/bin/python3", "-c", "import json, random; print('a child')"], capture_output=True, timeout=4)
notice("a child failed", told.returncode)
notice("start-up files", "STARTED-BY-ANOTHER" in told.stdout.decode() + told.stderr.decode())
notice("variables", [name for name in ("LD_PRELOAD", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONUSERBASE") if name in os.environ])
notice("files of another program", os.listdir("/tmp"))
""",
    ),
    leaving(
        "kinds-of-processes",
        "leave processes of every kind: siblings, silent ones, stopped ones, those that share its handles",
        probing("""
import signal
def clone(flags):
    child = call(56, 220, flags, 0, 0, 0, 0)
    if child == 0:
        for handle in (0, 1, 2):
            os.close(handle)
        os.setsid()
        while True:
            time.sleep(0.01)
            try:
                open("left-by-a-process", "w").close()
            except OSError:
                pass
    return child
made = [clone(flags) for flags in (0x8000 | 17, 0x8000, 0, 9, 19, 0x80000000 | 17, 0x00002000 | 17, 0x00800000 | 17)]
stopped = os.fork()
if stopped == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
for _ in range(5):
    if os.fork() == 0:
        os._exit(0)
time.sleep(0.2)
os._exit(tell() or 0)
"""),
        LOOK_FOR_PROCESSES,
    ),
    leaving(
        "unwaited-siblings",
        "fill the box with ended children of the runner, for which nobody waits",
        probing("""
made = 0
def fill():
    global made
    while made < 5000:
        if call(56, 220, 0x8000 | 17, 0, 0, 0, 0) == 0:
            os._exit(0)
        made += 1
attempt("5000 siblings", fill)
found = {}
"""),
        LOOK_FOR_PROCESSES,
    ),
)
