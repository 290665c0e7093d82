"""The file system that programs see: one Python, its standard library, the runner, and nothing else.

It is built from an interpreter of this machine, so that no registry is needed, and used for the container image and bubblewrap.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from components.errors import ConfigurationError, ServiceMissing
from components.machine.process_ids import ProcessId, this_process
from components.reporting.progress import NEWS
from components.sandbox.box import RUNNER_COMMAND, RUNNER_FILES

_PYTHON = RUNNER_COMMAND[0]
_RECIPE = 2  # increase when the contents change
_RUNNER_FILES = {Path(__file__).with_name(name): path for name, path in RUNNER_FILES.items()}
_UNUSED_SECONDS = 30 * 24 * 3600.0
_BUILD_TIMEOUT_SECONDS = 300.0
_PART_PREFIX = ".part-"
_FOLDERS = ("dev", "etc", "proc", "sys", "tmp", "usr/bin")
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/:/none\nnobody:x:65534:65534:nobody:/tmp:/none\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/resolv.conf": "",
}
_LEFT_OUT = {
    *(
        "__pycache__",
        "site-packages",
        "dist-packages",
        "test",
        "tests",
        "idle_test",
        "idlelib",
        "tkinter",
        "turtledemo",
    ),
    *("ensurepip", "lib2to3", "pydoc_data", "venv"),
}
_LEFT_OUT_FILE = re.compile(r".*\.(a|pyc)|_(test|xxtest|ctypes_test|tkinter).*\.so|_xx.*\.so|xx.*\.so")
_LOADED_AT_RUN_TIME = ("libgcc_s.so.1",)  # by pthread_exit; no file names it as needed
_ASK = """
import ctypes, json, os, sys, sysconfig
for name in sys.argv[1:]:
    ctypes.CDLL(name)
maps = [line.split()[-1] for line in open("/proc/self/maps") if "/" in line]
print(json.dumps([os.path.realpath(sys._base_executable), sysconfig.get_path("stdlib"), sorted(set(maps))]))
"""


_log = logging.getLogger(__name__)


class _Interpreter(NamedTuple):
    """An interpreter as it names itself, outside any virtual environment."""

    executable: Path
    standard_library: Path
    loaded_at_run_time: tuple[Path, ...]


def build_rootfs(into: Path, *, python: Path | None = None) -> str:
    """Build the file system at `into`, which must not exist, and return its digest.

    `python` is the interpreter to copy, by default the running one; it keeps its path, and `/usr/bin/python3` is a link to it.
    The same interpreter and runner give the same digest. Raises ConfigurationError when the interpreter cannot be used.
    """
    interpreter = _ask(python or Path(sys.executable))
    into.mkdir(parents=True)
    into.chmod(0o755)
    try:
        _fill(into, interpreter)
        return rootfs_digest(into)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise


def find_or_build_rootfs(state_folder: Path) -> tuple[Path, str]:
    """The read-only file system of this interpreter and runner below `state_folder`, and its digest; built if missing.

    Several processes may call this at once: the first one to finish provides it for all.
    """
    folder = _cache(state_folder) / _key()
    ready = folder / "digest"
    if not ready.is_file():
        _log.warning("building the sandbox (once): the file system of its boxes", extra=NEWS)
        _cache(state_folder).mkdir(parents=True, exist_ok=True)
        remove_unused_rootfs(state_folder)
        part = Path(tempfile.mkdtemp(prefix=_PART_PREFIX, suffix=f"-{this_process()}", dir=_cache(state_folder)))
        try:
            (part / "digest").write_text(build_rootfs(part / "root"), encoding="utf-8")
            part.chmod(0o755)
            part.rename(folder)
        except OSError:
            if not ready.is_file():  # else another builder was first
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    os.utime(folder)
    return folder / "root", ready.read_text(encoding="utf-8")


def list_built_digests(state_folder: Path) -> tuple[str, ...]:
    """The digests of the file systems below `state_folder`, the newest first. Builds none."""
    ready = [path for path in _cache(state_folder).glob("*/digest") if not path.parent.name.startswith(_PART_PREFIX)]
    newest_first = sorted(ready, key=lambda path: path.stat().st_mtime, reverse=True)
    return tuple(dict.fromkeys(path.read_text(encoding="utf-8") for path in newest_first))


def rootfs_digest(root: Path) -> str:
    """SHA-256 of everything below `root`, in order of path: kind, permissions, and content or link target."""
    digest = hashlib.sha256()
    for path in _list_tree(root):
        mode = path.lstat().st_mode
        content, permissions = b"", stat.S_IMODE(mode)
        if stat.S_ISLNK(mode):
            content, permissions = os.readlink(path).encode(), 0
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        entry = f"{stat.S_IFMT(mode):o} {permissions:o} {path.relative_to(root)}\0"
        digest.update(entry.encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()


def write_tar(root: Path, out: IO[bytes]) -> None:
    """Write the file system as a tar archive: owned by root, without times, in order of path."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(fileobj=out, mode="w") as archive:
        for path in _list_tree(root):
            archive.add(path, path.relative_to(root), recursive=False, filter=anonymous)


def remove_unused_rootfs(state_folder: Path) -> int:
    """Remove leftovers of killed builders and file systems unused for a month; returns how many."""
    removed = 0
    for folder in _cache(state_folder).glob("*"):
        if folder.name.startswith(_PART_PREFIX):
            owner = ProcessId.parse(folder.name.removeprefix(_PART_PREFIX).partition("-")[2])
            stale = owner is None or owner.is_gone()
        else:
            stale = folder.name != _key() and time.time() - folder.stat().st_mtime > _UNUSED_SECONDS
        if stale:
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _cache(state_folder: Path) -> Path:
    return state_folder.absolute() / "rootfs"


def _key() -> str:
    """A name for the inputs of the build."""
    executable = os.path.realpath(sys.executable)
    facts = f"{_RECIPE} {sys.version} {executable} {os.stat(executable).st_mtime_ns} "
    contents = b"".join(source.read_bytes() for source in _RUNNER_FILES)
    return hashlib.sha256(facts.encode() + contents).hexdigest()[:16]


def _ask(python: Path) -> _Interpreter:
    command = [str(python), "-I", "-S", "-c", _ASK, *_LOADED_AT_RUN_TIME]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_BUILD_TIMEOUT_SECONDS, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        raise ConfigurationError(
            f"python {python}: not an interpreter that a sandbox can use: {told[-500:]}"
        ) from error
    executable, standard_library, maps = json.loads(done.stdout)
    found = tuple(Path(path) for path in maps if Path(path).name in _LOADED_AT_RUN_TIME)
    return _Interpreter(Path(executable), Path(standard_library), found)


def _fill(root: Path, interpreter: _Interpreter) -> None:
    for name in _FOLDERS:
        _make_folder(root, Path(name))
    (root / "tmp").chmod(0o1777)
    for name, text in _TEXTS.items():
        (root / name).write_text(text, encoding="utf-8")
    modules = list(_standard_library(interpreter.standard_library))
    binaries = [interpreter.executable, *(path for path in modules if path.suffix == ".so")]
    programs = {interpreter.executable, *_find_shared_libraries([*binaries, *interpreter.loaded_at_run_time])}
    for path in sorted({*programs, *interpreter.loaded_at_run_time, *modules}):
        _copy(path, root / path.relative_to("/"), root, mode=0o755 if path in programs else 0o644)
    if str(interpreter.executable) != _PYTHON:
        (root / _PYTHON[1:]).symlink_to(interpreter.executable)
    for source, place in _RUNNER_FILES.items():
        _copy(source, root / place[1:], root, mode=0o644)
    for path in root.glob("etc/*"):
        path.chmod(0o644)
    _compile(interpreter, root)
    for path in _list_tree(root):
        if not path.is_symlink():
            os.utime(path, (0, 0))


def _standard_library(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith("config-")]
        yield from (Path(parent, name) for name in names if not _LEFT_OUT_FILE.fullmatch(name))


def _find_shared_libraries(binaries: Iterable[Path]) -> set[Path]:
    """The files that the dynamic loader loads for `binaries`, including itself."""
    command = ["ldd", *map(str, binaries)]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_BUILD_TIMEOUT_SECONDS, encoding="utf-8"
        )
    except FileNotFoundError as error:
        raise ServiceMissing("ldd is not installed: `apt-get install -y libc-bin`") from error
    libraries = {Path(path) for path in re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", found.stdout, re.MULTILINE)}
    missing = sorted(set(re.findall(r"(\S+) => not found", found.stdout)))
    if missing or not libraries:
        raise ConfigurationError(f"python: its shared libraries {missing or ''} are not found: {found.stderr[-300:]}")
    return libraries


def _copy(source: Path, target: Path, root: Path, *, mode: int) -> None:
    _make_folder(root, target.parent.relative_to(root))
    shutil.copyfile(source, target)
    target.chmod(mode)


def _make_folder(root: Path, folder: Path) -> None:
    """Make a folder and its parents, readable by all users under any umask."""
    for path in reversed([root / folder, *(root / parent for parent in folder.parents)]):
        if not path.is_dir():
            path.mkdir()
            path.chmod(0o755)


def _compile(interpreter: _Interpreter, root: Path) -> None:
    """Write bytecode that is never checked against its source: the file system is read-only, and its times are 0."""
    library = root / interpreter.standard_library.relative_to("/")
    command = [
        *(str(interpreter.executable), "-E", "-s", "-S", "-m", "compileall", "-q", "-o", "0"),
        *("--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/", str(library)),
    ]
    done = subprocess.run(
        command,
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_SECONDS,
        check=False,
        encoding="utf-8",
    )
    if done.returncode:
        raise ConfigurationError(
            f"{interpreter.executable}: its standard library does not compile: {done.stdout[-500:]}"
        )
    for path in library.rglob("__pycache__"):
        path.chmod(0o755)
        for compiled in path.iterdir():
            compiled.chmod(0o644)


def _list_tree(root: Path) -> list[Path]:
    """Everything below `root`, in order of path, folders before what they hold."""
    return sorted(root.rglob("*"), key=lambda path: path.relative_to(root).parts)
