"""Process 1 of an agent's box: runs one agent, leads its loopback to the session's socket, and reports its end.

Standard library, plus `confinement.py` and `program_folder.py`. The agent is its child and runs as the same user, but cannot
signal, trace or read this process: it is process 1 of its namespace, and not dumpable.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from components.machine.program_folder import MAX_OUTPUT_BYTES, read_outputs, write_files
from components.sandbox.confinement import LIBC, MS_NODEV, MS_NOSUID, PR_SET_DUMPABLE, check, harden, lower

HOME = Path("/home/agent")
"""The agent's folder; its path may stand in prompts."""
STAGE = Path("/run/stage")
WRITABLE = {"home": HOME, "tmp": Path("/tmp"), "shm": Path("/dev/shm")}
"""The places of one file system in memory, which has the box's limit of files."""
SOCKET = "/run/gateway.sock"
ADDRESS = "127.0.0.1"
PORT = 8000
MAX_OPEN_FILES = 1024
END_SECONDS = 5.0
_MS_BIND, _MNT_DETACH = 0x1000, 2
_LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 1 << 16


def main() -> None:
    """Run one agent. The argument is a JSON object with `filter`, `disk_mib`, `num_files` and, for a box without control
    groups, `num_processes` and `memory_mib`."""
    settings = json.loads(sys.argv[1])
    wire = socket.socket(fileno=os.dup(0))
    wire.settimeout(None)
    lay_out(settings["disk_mib"], settings["num_files"])
    harden({"filter": settings["filter"]})
    lower(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    for limit in (resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK):
        lower(limit, 0)
    if "num_processes" in settings:
        lower(resource.RLIMIT_NPROC, settings["num_processes"])
    send(wire, {"ready": True})
    job, texts = receive(wire)
    try:
        write_files(HOME, dict(zip(job["files"], texts, strict=True)))
    except (ValueError, OSError) as error:
        send(wire, {"misplaced": str(error)})
        return
    try:
        code, output = asyncio.run(Agent(job, settings.get("memory_mib")).run())
        files = read_outputs(HOME, job["outputs"])
        bodies = [output, *(text.encode() for text in files.values())]
        send(wire, {"exit_code": code, "sizes": [len(body) for body in bodies], "files": list(files)}, *bodies)
    except (FileNotFoundError, PermissionError) as error:
        send(wire, {"unstartable": str(error)})
    except BaseException as error:
        send(wire, {"internal": f"{type(error).__name__}: {error}"})


def lay_out(disk_mib: int, num_files: int) -> None:
    """Mount the one file system that may be written, at all its places. Raises OSError."""
    options = f"size={disk_mib}m,nr_inodes={num_files},mode=755"
    check(LIBC.mount(b"tmpfs", bytes(STAGE), b"tmpfs", MS_NOSUID | MS_NODEV, options.encode()))
    for name, place in WRITABLE.items():
        (STAGE / name).mkdir()
        (STAGE / name).chmod(0o755 if place == HOME else 0o1777)
        check(LIBC.mount(bytes(STAGE / name), bytes(place), None, _MS_BIND, None))
    check(LIBC.umount2(bytes(STAGE), _MNT_DETACH))


class Agent:
    """One agent while it runs."""

    def __init__(self, job: dict[str, Any], memory_mib: int | None) -> None:
        self._job = job
        self._memory_mib = memory_mib
        self._output = bytearray()

    async def run(self) -> tuple[int | None, bytes]:
        """Its exit code, None if it took too long, and the end of what it printed; nothing of it runs any more."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: None)  # connections that break are the agent's affair
        ended = loop.create_future()
        async with await asyncio.start_server(lead_to_socket, ADDRESS, PORT):
            agent = self._start()
            assert agent.stdout is not None
            os.set_blocking(agent.stdout.fileno(), False)
            loop.add_reader(agent.stdout.fileno(), self._take, agent.stdout.fileno())
            loop.add_signal_handler(signal.SIGCHLD, reap, agent.pid, ended)
            reap(agent.pid, ended)
            done, _ = await asyncio.wait([ended], timeout=self._job["seconds"])
            loop.remove_signal_handler(signal.SIGCHLD)
            end_all()
            while self._take(agent.stdout.fileno()):
                pass
            return ended.result() if done else None, bytes(self._output)

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._job["command"],
            cwd=HOME,
            env=self._job["variables"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=self._confine,
        )

    def _confine(self) -> None:
        check(LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="utf-8")  # killed before this process
        if self._memory_mib is not None:
            lower(resource.RLIMIT_DATA, self._memory_mib << 20)

    def _take(self, pipe: int) -> bool:
        """Read some output; False if there is none."""
        try:
            chunk = os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._output += chunk
        del self._output[:-MAX_OUTPUT_BYTES]
        if not chunk:
            asyncio.get_running_loop().remove_reader(pipe)
        return bool(chunk)


async def lead_to_socket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one connection to the session's socket and back, each direction's end too: the gateway must see who gave up."""
    try:
        up_reader, up_writer = await asyncio.open_unix_connection(SOCKET)
    except OSError:
        writer.transport.abort()
        return
    await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))
    up_writer.close()
    writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry one direction until it ends or breaks."""
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


def reap(agent: int, ended: "asyncio.Future[int]") -> None:
    """Collect processes that have ended; the agent's exit code is the result of `ended`."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == agent and not ended.done():
                ended.set_result(os.waitstatus_to_exitcode(found[1]))


def end_all() -> None:
    """Kill and collect all other processes. Raises TimeoutError."""
    last = time.monotonic() + END_SECONDS
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            if time.monotonic() > last:
                raise TimeoutError(f"killed processes are not gone after {END_SECONDS:g} s")
            time.sleep(0.001)


def receive(wire: socket.socket) -> tuple[dict[str, Any], list[str]]:
    """The job, and the texts of its files."""
    num_bytes = _LENGTH.unpack(read_exactly(wire, _LENGTH.size))[0]
    payload = read_exactly(wire, num_bytes)
    start = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
    job = json.loads(payload[_LENGTH.size : start])
    texts = []
    for size in job["sizes"]:
        texts.append(payload[start : start + size].decode("utf-8", "surrogatepass"))
        start += size
    return job, texts


def read_exactly(wire: socket.socket, num_bytes: int) -> bytes:
    """The next bytes. Ends the box if the host hangs up."""
    content = bytearray()
    while len(content) < num_bytes:
        chunk = wire.recv(num_bytes - len(content))
        if not chunk:
            sys.exit(0)
        content += chunk
    return bytes(content)


def send(wire: socket.socket, header: dict[str, Any], *bodies: bytes) -> None:
    """Send one frame of `protocol.py`."""
    head = json.dumps(header).encode()
    num_bytes = _LENGTH.size + len(head) + sum(map(len, bodies))
    wire.sendall(b"".join((_LENGTH.pack(num_bytes), _LENGTH.pack(len(head)), head, *bodies)))


if __name__ == "__main__":
    main()
