"""Attacks on the way back: result files that are no regular files, output that is no text."""

from collections.abc import Sequence

from components.sandbox.attacks.base import SHORT, Attack, Judge
from components.sandbox.attacks.decoys import Bait
from components.sandbox.attacks.grading import comes_back
from components.sandbox.attacks.kinds import attack
from components.schema import ExecutionResult

LARGEST_FILE = 4 << 20
"""The most characters that all returned files may have."""
ODD = (
    "link", "link-to-bait", "link-to-runner", "link-to-environ", "loop", "endless", "fifo", "folder", "socket", "hard-link",
    "absent",
)  # fmt: skip

ELSEWHERE = (
    "../etc/passwd", "/etc/passwd", "../../../../../../etc/passwd", "folder/../../etc/passwd", "..", ".", "/", "",
    "/proc/self/environ", "/runner.py", "folder/inner",
)  # fmt: skip
LARGE = tuple(f"large-{index}" for index in range(12))
LONG_NAMES = tuple(f"{index:02}-" + "long-name-" * 20 for index in range(16))
"""Each is reported as missing, which must not make the answer too long."""

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

MAKE_FOLDER = """
import os
os.mkdir("folder")
for name in ("folder/inner", "plain"):
    with open(name, "w") as file:
        file.write("harmless")
"""


def _not_returned(names: Sequence[str], bait: Bait) -> Judge:
    """The plain file came back, none of `names` did, and no content of this machine or the box did."""
    contents = ("root:", bait.secret, "import ")

    def check(result: ExecutionResult) -> bool:
        returned = [name for name in names if name in result.files]
        leaked = [text for text in result.files.values() if any(content in text for content in contents)]
        return result.status == "ok" and "plain" in result.files and not returned and not leaked

    return comes_back(check)


def _is_small(result: ExecutionResult) -> bool:
    sizes = [len(text) for text in result.files.values()]
    return result.status == "ok" and "done" in result.stdout and sum(sizes) <= LARGEST_FILE


def _is_its_own(result: ExecutionResult) -> bool:
    """Whether the race returned the program's own file, or nothing."""
    return result.status == "ok" and "done" in result.stdout and result.files.get("result") in (None, "harmless")


def _is_text(result: ExecutionResult) -> bool:
    """Whether all that came back can be encoded, and the output ends with the program's own end."""
    try:
        for text in (result.stdout, result.stderr, *result.files.values()):
            text.encode()
    except UnicodeEncodeError:
        return False
    return result.status == "ok" and result.stdout.endswith("END")


def _is_without_files(result: ExecutionResult) -> bool:
    return result.status == "ok" and "here" in result.stdout and not result.files


def _is_bounded(result: ExecutionResult) -> bool:
    size = len(result.detail) + len(result.stdout) + len(result.stderr)
    return result.status not in ("ok", "sandbox_error") and size <= 3 * SHORT.output_kib * 1024


def attacks(bait: Bait) -> tuple[Attack, ...]:
    """All attacks of this theme; `bait` has a file of this machine."""
    return (
        attack(
            "odd-result-files",
            "have a link, a pipe, a folder, a socket or a device read back as its result",
            ODD_FILES.format(bait=str(bait.file)),
            _not_returned(ODD, bait),
            outputs=("plain", *ODD),
        ),
        attack(
            "results-elsewhere",
            "name result files outside its folder",
            MAKE_FOLDER,
            _not_returned(ELSEWHERE, bait),
            outputs=("plain", *ELSEWHERE),
        ),
        *_ATTACKS,
    )


_ATTACKS = (
    attack(
        "large-results",
        "return 360 MiB of zeros that cost nothing to make",
        """
for index in range(12):
    with open(f"large-{index}", "wb") as file:
        file.truncate(30 << 20)
print("done")
""",
        comes_back(_is_small),
        outputs=LARGE,
    ),
    attack(
        "result-race",
        "swap the result with a link to a file of the system while it is read",
        """
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
""",
        comes_back(_is_its_own),
        outputs=("result",),
    ),
    attack(
        "odd-bytes",
        "write NUL, broken UTF-8, surrogates and terminal commands to output and files",
        """
import os
os.write(1, bytes(range(256)) * 8 + b"\\xff\\xfe\\x00\\x1b[2J\\x1b]0;owned\\x07\\r\\n" + b"\\xed\\xa0\\x80" * 9 + b"END")
os.write(2, b"\\x00\\xff" * 100)
with open("odd", "wb") as file:
    file.write(bytes(range(256)) * 4)
""",
        comes_back(_is_text),
        outputs=("odd",),
    ),
    attack(
        "long-names",
        "make the answer too long with the names of 16 missing results",
        "print('here')",
        comes_back(_is_without_files),
        outputs=LONG_NAMES,
    ),
    attack(
        "long-error",
        "raise an error whose text has 10 million characters",
        """
class Loud(Exception):
    def __str__(self):
        return "y" * 10_000_000
raise Loud
""",
        comes_back(_is_bounded),
    ),
)
