"""Attacks on the way back: result files that are no files, output that is no text."""

from collections.abc import Sequence

from components.sandbox.attacks.bait import Bait
from components.sandbox.attacks.base import SHORT, Attack, Judge, Verdict, ending
from components.sandbox.attacks.judges import judged_by
from components.schema import Execution, ExecutionResult

THEME = "results"
LARGEST_FILE = 4 << 20
"""No returned file may be larger, in characters."""

ODD_FILES = """
import os, socket
with open("plain", "w") as file:
    file.write("harmless")
os.symlink("/etc/passwd", "link")
os.symlink({bait!r}, "link-to-bait")
os.symlink("/runner.py", "link-to-runner")
os.symlink("/proc/self/environ", "link-to-environ")
os.symlink("loop", "loop")
os.symlink("/dev/zero", "endless")
os.mkfifo("fifo")
os.mkdir("folder")
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
try:
    os.link("/etc/passwd", "hard-link")
except OSError:
    pass
print("done")
"""
ODD = (
    "link", "link-to-bait", "link-to-runner", "link-to-environ", "loop", "endless", "fifo", "folder", "socket", "hard-link",
    "absent",
)  # fmt: skip

ELSEWHERE = (
    "../etc/passwd", "/etc/passwd", "../../../../../../etc/passwd", "folder/../../etc/passwd", "..", ".", "/", "",
    "/proc/self/environ", "/runner.py", "folder/inner",
)  # fmt: skip
MAKE_FOLDER = """
import os
os.mkdir("folder")
for name in ("folder/inner", "plain"):
    with open(name, "w") as file:
        file.write("harmless")
"""

LARGE_FILES = """
for index in range(12):
    with open(f"large-{index}", "wb") as file:
        file.truncate(30 << 20)
print("done")
"""
LARGE = tuple(f"large-{index}" for index in range(12))
LONG_NAMES = tuple(f"{index:02}-" + "long-name-" * 20 for index in range(16))
"""That all are missing is told, and must not make the answer too long."""

RACE = """
import os
with open("plain", "w") as file:
    file.write("harmless")
os.symlink("/etc/passwd", "link")
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            for source in ("plain", "link"):
                try:
                    os.link(source, f"new-{os.getpid()}", follow_symlinks=False)
                    os.replace(f"new-{os.getpid()}", "result")
                except OSError:
                    pass
print("done")
"""

ODD_BYTES = """
import os
os.write(1, bytes(range(256)) * 8 + b"\\xff\\xfe\\x00\\x1b[2J\\x1b]0;owned\\x07\\r\\n" + b"\\xed\\xa0\\x80" * 9 + b"END")
os.write(2, b"\\x00\\xff" * 100)
with open("odd", "wb") as file:
    file.write(bytes(range(256)) * 4)
"""

LONG_DETAIL = """
class Loud(Exception):
    def __str__(self):
        return "y" * 10_000_000
raise Loud
"""


def _not_returned(names: Sequence[str], content: Sequence[str], honest: str) -> Judge:
    """The file `honest` came back, none of `names` did, and nothing that came back holds any of `content`."""

    def check(result: ExecutionResult) -> Verdict:
        back = [name for name in names if name in result.files]
        leaked = [name for name, text in result.files.items() if any(each in text for each in content)]
        if result.status != "ok" or honest not in result.files or back or leaked:
            told = f"came back: {', '.join([*back, *leaked])}" if back or leaked else ending(result)
            return Verdict(stopped=False, by=told)
        kept = ", ".join(result.files) or "nothing"
        return Verdict(stopped=True, by=f"{len(names)} names refused, came back: {kept}")

    return judged_by(check)


def _small(result: ExecutionResult) -> Verdict:
    """No result file is larger than any honest one."""
    sizes = [len(text) for text in result.files.values()]
    held = result.status == "ok" and "done" in result.stdout and sum(sizes) <= LARGEST_FILE
    return Verdict(stopped=held, by=f"{len(sizes)} of {len(LARGE)} files came back, {ending(result)}")


def _never_followed(result: ExecutionResult) -> Verdict:
    """Whatever the race gave, it is the program's own file or nothing."""
    text = result.files.get("result")
    held = result.status == "ok" and "done" in result.stdout and text in (None, "harmless")
    back = "nothing" if text is None else repr(text[:40])
    return Verdict(stopped=held, by=f"came back: {back}, {ending(result)}")


def _data_only(result: ExecutionResult) -> Verdict:
    """All bytes came back as text that can be written down, and the end of the output is its own."""
    try:
        for text in (result.stdout, result.stderr, *result.files.values()):
            text.encode()
    except UnicodeEncodeError as error:
        return Verdict(stopped=False, by=f"text that cannot be encoded: {error.reason}")
    held = result.status == "ok" and result.stdout.endswith("END")
    return Verdict(stopped=held, by=f"{len(result.stdout)} characters of plain text, {ending(result)}")


def _told_briefly(result: ExecutionResult) -> Verdict:
    held = result.status == "ok" and "here" in result.stdout and not result.files
    return Verdict(stopped=held, by=f"{len(result.detail)} characters of detail, {result.status}")


def _bounded(result: ExecutionResult) -> Verdict:
    size = len(result.detail) + len(result.stdout) + len(result.stderr)
    held = result.status not in ("ok", "sandbox_error") and size <= 3 * SHORT.output_kib * 1024
    return Verdict(stopped=held, by=f"{size} characters came back, {result.status}")


def _attack(name: str, tries: str, program: str, judge: Judge, outputs: tuple[str, ...] = ()) -> Attack:
    jobs = (Execution(program=program, outputs=outputs, limits=SHORT),)
    return Attack(name=name, theme=THEME, tries=tries, jobs=jobs, judge=judge)


def attacks(bait: Bait) -> tuple[Attack, ...]:
    """Those that reach for this machine's own file too."""
    host = ("root:", bait.secret, "import ")
    return (
        _attack(
            "odd-result-files",
            "have a link, a pipe, a folder, a socket or a device read back as its result",
            ODD_FILES.format(bait=str(bait.file)),
            _not_returned(ODD, host, "plain"),
            ("plain", *ODD),
        ),
        _attack(
            "results-elsewhere",
            "name result files outside its folder",
            MAKE_FOLDER,
            _not_returned(ELSEWHERE, host, "plain"),
            ("plain", *ELSEWHERE),
        ),
        _attack(
            "large-results", "return 360 MiB of zeros that cost nothing to make", LARGE_FILES, judged_by(_small), LARGE
        ),
        _attack(
            "result-race",
            "swap the result with a link to a file of the system while it is read",
            RACE,
            judged_by(_never_followed),
            ("result",),
        ),
        _attack(
            "odd-bytes",
            "write NUL, broken UTF-8, surrogates and terminal commands to output and files",
            ODD_BYTES,
            judged_by(_data_only),
            ("odd",),
        ),
        _attack(
            "long-names",
            "make the answer too long with the names of 16 missing results",
            "print('here')",
            judged_by(_told_briefly),
            LONG_NAMES,
        ),
        _attack("long-error", "raise an error whose text has 10 million characters", LONG_DETAIL, judged_by(_bounded)),
    )
