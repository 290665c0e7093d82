"""Process 1 of a box: runs one program at a time and reports its result. Standard library, plus the five files beside it.

It forks for each program, with common modules already imported, and exchanges the frames of `protocol.py`. Programs are its
children and run as the same user. They cannot signal, trace, read or slow down this process, from which the next program is
forked: it is process 1 of its namespace, not dumpable, and under a system call filter that its children inherit.

Contents (a program, its input, output and files) never become Python objects of this process. They are read into and written
from mapped memory, which is unmapped at the end of the job, so a program finds nothing of an earlier one in the memory that it
inherits. Of its own job it inherits the program, input and files. Expected outputs are never sent here.

A program ends when its first process ends; its other processes are then killed. This process never waits for a program: pipes
are read and written without blocking, and output files are read after the program has ended.
"""

# ruff: noqa: E401, F401, I001
import array, bisect, calendar, cmath, collections, contextlib, copy, dataclasses, datetime, decimal, enum, fractions, functools
import hashlib, heapq, io, itertools, operator, queue, random, re, statistics, string, subprocess, textwrap  # for programs
import atexit, base64, builtins, ctypes, errno, gc, json, linecache, math, mmap, os, resource, select, signal, stat, struct
import sys, threading, time, traceback, types
from typing import Any

from components.sandbox.usage_counters import BoxClock, EventCount
from components.sandbox.cleanup import empty
from components.sandbox.confinement import TMP, harden, lower
from components.sandbox.job import Job, Wire
from components.sandbox.program import MAX_OPEN_FILES, STARTED, Program, end_all

MAX_FILE_BYTES, MAX_ALL_FILES_BYTES = 1 << 20, 4 << 20
MAX_QUEUED_SIGNALS = 1024


def main() -> None:
    """Serve until the host hangs up. The argument is a JSON object; see `harden` and `Runner` for its keys."""
    settings = json.loads(sys.argv[1])
    for name in [name for name in sys.modules if name.partition(".")[0] == "components"]:
        del sys.modules[name]  # a program may import its own module of this name
    wire = Wire()
    harden(settings)
    runner = Runner(settings)
    wire.send({"ready": True})
    os.dup2(0, 2)
    while True:
        with contextlib.closing(wire.receive()) as job:
            try:
                wire.send(*runner.run(job))
            except BaseException as error:
                wire.send({"internal": f"{type(error).__name__}: {error}"})
                os._exit(3)


class Runner:
    """Runs jobs one after another. Settings: `num_processes`, a process limit for a box that has none of its own;
    `keep_sigchld`, whether the filter prevents programs from ignoring SIGCHLD."""

    def __init__(self, settings: dict[str, Any]) -> None:
        num_processes = settings.get("num_processes")
        self._crowd = num_processes - 2 if num_processes else math.inf  # with so many stragglers, more were refused
        self._refusals = EventCount("max", "/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events")
        self._kills = EventCount("oom_kill", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
        self._clock = BoxClock()
        if not self._clock.is_kept_by_the_kernel and not settings.get("keep_sigchld"):
            raise RuntimeError("no control group counts the CPU time of this box, and programs may hide theirs")
        self._sockets = os.open("/proc/net/unix", os.O_RDONLY)
        self._no_sockets = os.pread(self._sockets, 4096, 0)
        self._owns_tmp = os.stat(TMP).st_uid == os.getuid()
        self._empty = os.statvfs(TMP)
        lower(resource.RLIMIT_FSIZE, self._empty.f_blocks * self._empty.f_frsize)
        lower(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
        lower(resource.RLIMIT_SIGPENDING, MAX_QUEUED_SIGNALS)
        for limit in (resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK):
            lower(limit, 0)
        if num_processes:
            lower(resource.RLIMIT_NPROC, num_processes)
        os.chdir(TMP)
        self._clean()
        gc.collect()
        gc.freeze()  # the collector would write to these pages, which are shared with programs

    def run(self, job: Job) -> tuple[Any, ...]:
        """The answer's header, and the parts of its body."""
        for name, content in job.files.items():
            write_file(name, content)
        started = time.monotonic()
        self._clock.start()
        program = Program(job, self._clock)
        cut = program.watch(started + job.wall_seconds, job.cpu_seconds)
        wall_seconds = time.monotonic() - started
        exit_code, waited_seconds, num_stragglers = end_all(program.pid)
        cpu_seconds = self._clock.seconds(waited_seconds)
        over = program.drain()
        if not STARTED[0] and not cut:
            raise RuntimeError(f"the child ended with {exit_code} before the program")
        files, missing = read_files(job)
        parts = (program.output.content, program.errors.content, *files.values())
        header = {
            "cut": "output" if over else cut,
            "exit_code": exit_code,
            "wall_seconds": wall_seconds,
            "cpu_seconds": cpu_seconds,
            "num_stragglers": num_stragglers,
            "refused": self._refusals.rose() or num_stragglers >= self._crowd,
            "out_of_memory": self._kills.rose(),
            "clean": self._clean(),
            "stdout": len(parts[0]),
            "stderr": len(parts[1]),
            "files": [[name, len(content)] for name, content in files.items()],
            "missing": missing,
        }
        return header, *parts

    def _clean(self) -> bool:
        """Empty /tmp. Returns whether it is as it was at the start."""
        try:
            if self._owns_tmp:
                # Programs own it too, and a changed mode would reach the next program.
                os.chmod(TMP, 0o1777)
            empty(TMP)
            if self._owns_tmp:
                os.utime(TMP, (0, 0))
            else:
                set_times_anew()
            if os.pread(self._sockets, 4096, 0) != self._no_sockets:
                return False  # sockets in each other's queues outlive their program, with all handles in them
            return not os.listdir(TMP) and os.statvfs(TMP) == self._empty
        except OSError:
            return False


def write_file(name: str, content: memoryview) -> None:
    with open(f"{TMP}/{name}", "xb", buffering=0) as file:
        while content:
            content = content[file.write(content) :]


def read_files(job: Job) -> tuple[dict[str, memoryview], list[list[str]]]:
    """The job's output files that can be read, and for each of the others its name and the reason."""
    found: dict[str, memoryview] = {}
    missing = []
    room = MAX_ALL_FILES_BYTES
    for name in job.outputs:
        try:
            # Neither follow a link nor wait for the other end of a pipe.
            fd = os.open(f"{TMP}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            missing.append([name, os.strerror(error.errno or 0)])
            continue
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            missing.append([name, "Not a regular file"])
        elif status.st_size > min(MAX_FILE_BYTES, room):
            missing.append([name, "Too large"])
        else:
            capture = job.capture(status.st_size)
            while capture.read(fd):
                pass
            found[name] = capture.content
            room -= len(capture.content)
        os.close(fd)
    return found, missing


def set_times_anew() -> None:
    """Set the times of shared folders to now, so that a program cannot pass information in them: /tmp by a change in it, and
    /dev and its links, which a container engine mounts with access times, by reading them."""
    os.mkdir(f"{TMP}/made")
    os.rmdir(f"{TMP}/made")
    with os.scandir("/dev") as entries:
        for entry in entries:
            if entry.is_symlink():
                os.readlink(entry.path)


if __name__ == "__main__":
    main()
