"""A box's jobs and answers, one at a time, with their contents outside the Python heap. Runs inside the box: standard library
only."""

import json
import mmap
import os
import struct
from typing import Any

LENGTH = struct.Struct(">I")


class Memory:
    """Bytes outside the Python heap, initially zero. After `close` nothing of them is left in this process."""

    def __init__(self, num_bytes: int) -> None:
        self.bytes = mmap.mmap(-1, max(1, num_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self.bytes)

    def close(self) -> None:
        self.view.release()
        self.bytes.close()


class Wire:
    """The host's stream, moved from descriptors 0 and 1 so that programs do not inherit it."""

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
                os._exit(0)  # the host has closed the stream or died: the box ends with its process 1
            view = view[num_bytes:]


class Job:
    """One program with its limits. Its contents are views of the frame; `close` releases them and all captures."""

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
    """A program's output, up to a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit + 1)
        self._limit = limit
        self._num_bytes = 0

    @property
    def over(self) -> bool:
        """Whether the output exceeded the limit."""
        return self._num_bytes > self._limit

    @property
    def content(self) -> memoryview:
        return self.view[: min(self._num_bytes, self._limit)]

    def read(self, fd: int) -> bool:
        """Read what is available, possibly nothing. Returns False at the end of the stream or if the capture is full."""
        try:
            num_bytes = os.readv(fd, [self.view[self._num_bytes :]])
        except BlockingIOError:
            return True  # the program has emptied the pipe through its own handle
        self._num_bytes += num_bytes
        return num_bytes > 0
