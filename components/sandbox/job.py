"""What a box is told and answers: one job at a time, whose contents lie outside the Python heap. Runs inside: standard library
only."""

import json
import mmap
import os
import struct
from typing import Any

LENGTH = struct.Struct(">I")


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
