"""One program in the box: its process, its pipes, and its end. Runs inside the box: standard library only."""

import atexit
import builtins
import contextlib
import gc
import linecache
import math
import mmap
import os
import resource
import select
import signal
import sys
import threading
import time
import traceback
import types
from typing import NoReturn

from components.sandbox.confinement import LIBC, PR_SET_DUMPABLE, TMP, lower
from components.sandbox.job import Job
from components.sandbox.usage_counters import BoxClock

MAIN_FILE = "main.py"
MAX_OPEN_FILES = 256
END_SECONDS = 5.0
"""How long killed processes may take to disappear; after that the whole box is ended."""
MIN_CPU_CHECK_SECONDS = 0.02
NUM_CPUS = os.cpu_count() or 1
STARTED = mmap.mmap(-1, 1)
"""Shared with the child until it runs the program: a failure before that is not the program's."""
WAIT_ALL = 0x40000000  # also children created without an exit signal


class Program:
    """A running program: its process, and this process's ends of its pipes."""

    def __init__(self, job: Job, clock: BoxClock) -> None:
        self._clock = clock
        self.output, self.errors = job.capture(job.output_bytes), job.capture(job.output_bytes)
        self._input = job.stdin
        input_theirs, self._input_fd = os.pipe()
        output_fd, output_theirs = os.pipe()
        errors_fd, errors_theirs = os.pipe()
        for fd in (self._input_fd, output_fd, errors_fd):
            os.set_blocking(fd, False)  # a program can reopen its own ends, and then empty and fill the pipes too
        self._poller = select.poll()
        self._poller.register(self._input_fd, select.POLLOUT)
        self._feed()  # most inputs fit into the pipe
        STARTED[0] = 0
        self.pid = os.fork()
        if self.pid == 0:
            become(job, input_theirs, output_theirs, errors_theirs)
        for fd in (input_theirs, output_theirs, errors_theirs):
            os.close(fd)
        self._captures = {output_fd: self.output, errors_fd: self.errors}
        self._ended_fd = os.pidfd_open(self.pid)
        for fd in (output_fd, errors_fd, self._ended_fd):
            self._poller.register(fd, select.POLLIN)

    def watch(self, wall_end: float, cpu_seconds: float) -> str:
        """Wait until it ends or exceeds a limit. Returns the limit's name, or ""."""
        check_cpu = time.monotonic() + cpu_seconds / NUM_CPUS
        while True:
            now = time.monotonic()
            if now >= wall_end:
                return "wall"
            if now >= check_cpu:
                left = cpu_seconds - self._clock.seconds()
                if left <= 0:
                    return "cpu"
                # Any number of processes can use up the rest no faster than on all CPUs.
                check_cpu = now + max(MIN_CPU_CHECK_SECONDS, left / NUM_CPUS)
            ready = {fd for fd, _ in self._poller.poll((min(wall_end, check_cpu) - now) * 1000)}
            if not self._take(ready):
                return "output"
            if self._ended_fd in ready:
                return ""
            if self._input_fd in ready:
                self._feed()

    def drain(self) -> bool:
        """Read the rest of the pipes once all writers have ended. Returns whether there was too much output."""
        while (ready := {fd for fd, _ in self._poller.poll(0)} & self._captures.keys()) and self._take(ready):
            pass
        for fd in (*self._captures, self._ended_fd, self._input_fd):
            if fd >= 0:
                os.close(fd)
        return self.output.over or self.errors.over

    def _take(self, ready: set[int]) -> bool:
        """Read what the program wrote. Returns False if there was too much."""
        for fd in ready & self._captures.keys():
            capture = self._captures[fd]
            if not capture.read(fd):
                self._poller.unregister(fd)
            if capture.over:
                return False
        return True

    def _feed(self) -> None:
        """Write as much input as the pipe accepts; close it after the last byte, or if nobody reads."""
        try:
            self._input = self._input[os.write(self._input_fd, self._input) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._input = self._input[:0]
        if not self._input:
            self._poller.unregister(self._input_fd)
            os.close(self._input_fd)
            self._input_fd = -1


def become(job: Job, *pipes: int) -> NoReturn:
    """In the forked child: detach from the runner, run the program, and exit as Python would."""
    code = 1
    try:
        os.setsid()
        for standard, fd in enumerate(pipes):
            os.dup2(fd, standard)
        os.closerange(3, MAX_OPEN_FILES)
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        with open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:
            file.write("1000")  # out of memory, the kernel kills programs before the runner
        lower(resource.RLIMIT_CPU, math.ceil(job.cpu_seconds) + 1)  # per process; the runner sums them up
        lower(resource.RLIMIT_AS, job.memory_bytes)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        source = str(job.program, "utf-8", "surrogatepass")
        STARTED[0] = 1
        STARTED.close()
        code = execute(source)
    finally:
        os._exit(code)


def execute(source: str) -> int:
    """Run a program as `__main__`; its exit code. Its objects are released at the end, so that open files are flushed."""
    main_module = types.ModuleType("__main__")
    vars(main_module).update(__builtins__=builtins, __file__=MAIN_FILE)
    sys.modules["__main__"] = main_module
    sys.argv[:] = [MAIN_FILE]
    sys.path[0] = TMP
    linecache.cache[MAIN_FILE] = (len(source), None, source.splitlines(keepends=True), MAIN_FILE)
    code = 0
    try:
        exec(compile(source, MAIN_FILE, "exec"), vars(main_module))
    except BaseException as error:
        code = exit_code_of(error)
    for last_act in (threading._shutdown, atexit._run_exitfuncs, vars(main_module).clear, gc.collect, flush):  # type: ignore[attr-defined]
        try:
            last_act()
        except BaseException as error:
            code = exit_code_of(error) or code
    return code & 0xFF


def exit_code_of(error: BaseException) -> int:
    """The exit code of a program that ended with `error`, which is printed as Python would."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    trace = error.__traceback__.tb_next if error.__traceback__ else None  # without this file's frame
    try:
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(type(error), error, trace)
        else:
            sys.excepthook(type(error), error, trace)
    except BaseException:
        # Out of memory there may not be enough for a traceback.
        os.write(2, f"{type(error).__name__}\n".encode())
    return 1


def flush() -> None:
    """Flush all buffers, including the C library's."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    LIBC.fflush(None)


def end_all(program: int) -> tuple[int, float, int]:
    """Kill and reap all other processes: the program's exit code, the CPU seconds of all, and how many others were alive."""
    exit_code, cpu_seconds, num_stragglers = 0, 0.0, 0
    pause, last = 0.0001, time.monotonic() + END_SECONDS
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # from process 1: all other processes in this namespace, at once
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG | WAIT_ALL)
        except ChildProcessError:
            return exit_code, cpu_seconds, num_stragglers
        if pid == 0:
            if time.monotonic() > last:
                raise TimeoutError(f"killed processes are not gone after {END_SECONDS:g} s")
            time.sleep(pause)
            pause = min(2 * pause, 0.002)
            continue
        cpu_seconds += usage.ru_utime + usage.ru_stime
        if pid == program:
            exit_code = os.waitstatus_to_exitcode(status)
        elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            num_stragglers += 1
