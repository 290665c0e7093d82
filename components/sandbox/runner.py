"""Process 1 of a box: runs one program at a time and says how it ended. Standard library, and three files beside it.

It forks itself for each program, with the common modules already imported, and speaks the frames of `protocol.py`. Programs
are its children, and run as its user. They cannot signal, trace, read or slow down this process, from which the next program
starts: it is process 1 of its namespace, not dumpable, and under a system call filter that its children inherit.

Contents (a program, its input, its outputs, its files) never become Python objects of this process. They are read into mapped
memory and written from it, and the mapping ends with the job, so a program finds nothing of an earlier one in the memory that
it inherits. Of its own job it inherits the program, the input and the files. Expected outputs never come here.

A program ends when its first process ends; what it leaves behind is killed. Nothing that this process does can wait for a
program: pipes are read and written without waiting, and what it wrote is read when it has ended.
"""

# ruff: noqa: E401, F401, I001
import array, bisect, calendar, cmath, collections, contextlib, copy, dataclasses, datetime, decimal, enum, fractions, functools
import hashlib, heapq, io, itertools, operator, queue, random, re, statistics, string, subprocess, textwrap  # for programs
import atexit, base64, builtins, ctypes, errno, gc, json, linecache, math, mmap, os, resource, select, signal, stat, struct
import sys, threading, time, traceback, types
from typing import Any, NoReturn

from components.sandbox.box_counts import BoxClock, EventCount
from components.sandbox.clearing import empty
from components.sandbox.confinement import LIBC, PR_SET_DUMPABLE, TMP, harden, lower

LENGTH = struct.Struct(">I")
MAIN_FILE = "main.py"
MAX_FILE_BYTES, MAX_ALL_FILES_BYTES = 1 << 20, 4 << 20
MAX_OPEN_FILES = 256
MAX_QUEUED_SIGNALS = 1024
END_SECONDS = 5.0
"""How long killed processes may take to be gone: after that the box ends, and they with it."""
MIN_CPU_CHECK_SECONDS = 0.02
NUM_CPUS = os.cpu_count() or 1
STARTED = mmap.mmap(-1, 1)
"""Shared with the child until it runs the program: what fails before that is not the program's failure."""
WAIT_ALL = 0x40000000  # also for children made to end without a signal


def main() -> None:
    """Serve until the host hangs up. The argument is a JSON object; see `harden` and `Runner` for its keys."""
    settings = json.loads(sys.argv[1])
    for name in [name for name in sys.modules if name.partition(".")[0] == "components"]:
        del sys.modules[name]  # programs may have a module of this name
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


class Memory:
    """Bytes outside the Python heap, zero at first. Nothing of them is left in this process after `close`."""

    def __init__(self, num_bytes: int) -> None:
        self.bytes = mmap.mmap(-1, max(1, num_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self.bytes)

    def close(self) -> None:
        self.view.release()
        self.bytes.close()


class Wire:
    """The host's stream, moved away from the descriptors 0 and 1, which no program shall share."""

    def __init__(self) -> None:
        self._input, self._output = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)

    def receive(self) -> "Job":
        prefix = bytearray(LENGTH.size)
        self._fill(memoryview(prefix))
        frame = Memory(LENGTH.unpack(prefix)[0])
        self._fill(frame.view)
        return Job(frame)

    def send(self, header: dict[str, Any], *body: memoryview) -> None:
        head = json.dumps(header).encode()
        num_bytes = LENGTH.size + len(head) + sum(map(len, body))
        parts = [memoryview(LENGTH.pack(num_bytes) + LENGTH.pack(len(head)) + head), *body]
        while parts:
            written = os.writev(self._output, parts)
            while parts and written >= len(parts[0]):
                written -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][written:]

    def _fill(self, view: memoryview) -> None:
        while view:
            num_bytes = os.readv(self._input, [view])
            if num_bytes == 0:
                os._exit(0)  # the host hung up, or died: the box ends with its process 1
            view = view[num_bytes:]


class Job:
    """One program with its limits. Its contents are views of the frame; they and all captures end with `close`."""

    def __init__(self, frame: Memory) -> None:
        self._memories: list[Memory] = [frame]
        rest = LENGTH.size + LENGTH.unpack_from(frame.view)[0]
        header = json.loads(bytes(frame.view[LENGTH.size : rest]))
        self.wall_seconds: float = header["wall_seconds"]
        self.cpu_seconds: float = header["cpu_seconds"]
        self.memory_bytes: int = header["memory_bytes"]
        self.output_bytes: int = header["output_bytes"]
        self.outputs: list[str] = header["outputs"]
        sizes = [header["program"], header["stdin"], *(num_bytes for _, num_bytes in header["files"])]
        self._views = []
        for num_bytes in sizes:
            self._views.append(frame.view[rest : rest + num_bytes])
            rest += num_bytes
        self.program, self.stdin = self._views[:2]
        self.files = dict(zip((name for name, _ in header["files"]), self._views[2:], strict=True))

    def capture(self, limit: int) -> "Capture":
        capture = Capture(limit)
        self._memories.append(capture)
        return capture

    def close(self) -> None:
        for view in self._views:
            view.release()
        for memory in self._memories:
            memory.close()


class Capture(Memory):
    """What a program wrote, up to a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit + 1)
        self._limit = limit
        self._num_bytes = 0

    @property
    def over(self) -> bool:
        """Whether there was more than the limit."""
        return self._num_bytes > self._limit

    @property
    def content(self) -> memoryview:
        return self.view[: min(self._num_bytes, self._limit)]

    def read(self, fd: int) -> bool:
        """Take what is there, of a pipe maybe nothing; False at the end of the stream, and when there is no more room."""
        try:
            num_bytes = os.readv(fd, [self.view[self._num_bytes :]])
        except BlockingIOError:
            return True  # the program has taken it back, through a handle of its own
        self._num_bytes += num_bytes
        return num_bytes > 0


class Runner:
    """Runs jobs one after another. Settings: `num_processes`, a limit to set where the box has none of its own;
    `keep_sigchld`, whether the filter lets no program ignore the end of its children."""

    def __init__(self, settings: dict[str, Any]) -> None:
        num_processes = settings.get("num_processes")
        self._crowd = num_processes - 2 if num_processes else math.inf  # more processes were certainly refused
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
        for limit in (resource.RLIMIT_CORE, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK):
            lower(limit, 0)
        if num_processes:
            lower(resource.RLIMIT_NPROC, num_processes)
        os.chdir(TMP)
        self._clean()
        gc.collect()
        gc.freeze()  # programs share these pages for as long as nobody walks over them

    def run(self, job: Job) -> tuple[Any, ...]:
        """The header of the answer, and the parts of its body."""
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
        """Empty /tmp; whether it is as it was at the start."""
        try:
            if self._owns_tmp:
                # Programs own it, too, and what one did to the folder itself would reach the next.
                os.chmod(TMP, 0o1777)
            empty(TMP)
            if self._owns_tmp:
                os.utime(TMP, (0, 0))
            else:
                set_times_anew()
            if os.pread(self._sockets, 4096, 0) != self._no_sockets:
                return False  # sockets that hold each other outlive their program, and so do all handles on their way there
            return not os.listdir(TMP) and os.statvfs(TMP) == self._empty
        except OSError:
            return False


class Program:
    """A running program: its process, and our ends of its pipes."""

    def __init__(self, job: Job, clock: BoxClock) -> None:
        self._clock = clock
        self.output, self.errors = job.capture(job.output_bytes), job.capture(job.output_bytes)
        self._input = job.stdin
        input_theirs, self._input_fd = os.pipe()
        output_fd, output_theirs = os.pipe()
        errors_fd, errors_theirs = os.pipe()
        for fd in (self._input_fd, output_fd, errors_fd):
            os.set_blocking(fd, False)  # a program that opens its own ends anew can empty and fill them as well
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
        """Wait for its end; which limit it went over before, if any."""
        check_cpu = time.monotonic() + cpu_seconds / NUM_CPUS
        while True:
            now = time.monotonic()
            if now >= wall_end:
                return "wall"
            if now >= check_cpu:
                left = cpu_seconds - self._clock.seconds()
                if left <= 0:
                    return "cpu"
                # However many processes there are, they cannot use it up faster than on all processors.
                check_cpu = now + max(MIN_CPU_CHECK_SECONDS, left / NUM_CPUS)
            ready = {fd for fd, _ in self._poller.poll((min(wall_end, check_cpu) - now) * 1000)}
            if not self._take(ready):
                return "output"
            if self._ended_fd in ready:
                return ""
            if self._input_fd in ready:
                self._feed()

    def drain(self) -> bool:
        """Take what is left in the pipes, once nobody can write any more; whether there was too much."""
        while (ready := {fd for fd, _ in self._poller.poll(0)} & self._captures.keys()) and self._take(ready):
            pass
        for fd in (*self._captures, self._ended_fd, self._input_fd):
            if fd >= 0:
                os.close(fd)
        return self.output.over or self.errors.over

    def _take(self, ready: set[int]) -> bool:
        """Read what the program wrote; False when it was too much."""
        for fd in ready & self._captures.keys():
            capture = self._captures[fd]
            if not capture.read(fd):
                self._poller.unregister(fd)
            if capture.over:
                return False
        return True

    def _feed(self) -> None:
        """Write what the input pipe takes; hang up when that was all, or when nobody reads."""
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
    """In the forked child: leave the runner behind, run the program to its end, and end as Python ends."""
    code = 1
    try:
        os.setsid()
        for standard, fd in enumerate(pipes):
            os.dup2(fd, standard)
        os.closerange(3, MAX_OPEN_FILES)
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # the kernel ends programs before it ends the runner
        lower(resource.RLIMIT_CPU, math.ceil(job.cpu_seconds) + 1)  # for one process; the runner adds them all up
        lower(resource.RLIMIT_AS, job.memory_bytes)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        source = str(job.program, "utf-8", "surrogatepass")
        STARTED[0] = 1
        STARTED.close()
        code = execute(source)
    finally:
        os._exit(code)


def execute(source: str) -> int:
    """Run a program as `__main__`; its exit code. Everything that it holds is let go of, so that open files are written."""
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
    """The exit code of a program that ended with `error`, which is reported as Python reports it."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    trace = error.__traceback__.tb_next if error.__traceback__ else None  # without our own frame
    try:
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(type(error), error, trace)
        else:
            sys.excepthook(type(error), error, trace)
    except BaseException:
        # Out of memory there may be none left for a traceback.
        os.write(2, f"{type(error).__name__}\n".encode())
    return 1


def flush() -> None:
    """Write what is left in the buffers, C's included."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    LIBC.fflush(None)


def end_all(program: int) -> tuple[int, float, int]:
    """Kill and reap every process but this one: the program's exit code, the CPU seconds of all, and how many others lived."""
    exit_code, cpu_seconds, num_stragglers = 0, 0.0, 0
    pause, last = 0.0001, time.monotonic() + END_SECONDS
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # from process 1: everything in this namespace but ourselves, at once
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


def write_file(name: str, content: memoryview) -> None:
    with open(f"{TMP}/{name}", "xb", buffering=0) as file:
        while content:
            content = content[file.write(content) :]


def read_files(job: Job) -> tuple[dict[str, memoryview], list[list[str]]]:
    """The job's output files that can be had, and for each of the others its name and why not."""
    found: dict[str, memoryview] = {}
    missing = []
    room = MAX_ALL_FILES_BYTES
    for name in job.outputs:
        try:
            # Never a link, never a wait for the other end of a pipe.
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
    """Let the times of what all programs see be those of this moment, not of a program's choice: of /tmp, by a change in it,
    and of /dev and its links, which an engine mounts so that it keeps when they were last looked at."""
    os.mkdir(f"{TMP}/made")
    os.rmdir(f"{TMP}/made")
    with os.scandir("/dev") as entries:
        for entry in entries:
            if entry.is_symlink():
                os.readlink(entry.path)


if __name__ == "__main__":
    main()
