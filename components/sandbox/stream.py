"""A connection to the runner of one box: jobs out, answers in."""

import contextlib
import socket
import struct
import threading
import time
from typing import Any

from components.sandbox.box import BoxGone, BoxTimeout
from components.sandbox.protocol import FrameReader

_CHUNK_BYTES = 1 << 16
_PIECE = struct.Struct(">BxxxI")  # before each piece of output: which stream, how many bytes
_STDOUT, _STDERR = 1, 2
_MAX_PIECE_BYTES = 1 << 20
_MAX_COMPLAINT_BYTES = 2000


class FrameStream:
    """A socket that carries frames. Used by one thread at a time; any thread may close it."""

    def __init__(self, stream: socket.socket, *, name: str = "the box") -> None:
        """`name` is the box in errors."""
        self._socket = stream
        self._name = name
        self._in_use = threading.Lock()

    def ask(self, frame: bytes, *, timeout_seconds: float) -> bytes:
        """Send one frame and return the payload of the answer. Raises BoxGone, BoxTimeout."""
        deadline = time.monotonic() + timeout_seconds
        self.send(frame, timeout_seconds=timeout_seconds)
        return self.receive(deadline)

    def send(self, frame: bytes, *, timeout_seconds: float) -> None:
        """Send one frame. Raises BoxGone, BoxTimeout."""
        try:
            with self._in_use:
                self._socket.settimeout(timeout_seconds)
                self._socket.sendall(frame)
        except TimeoutError as error:
            raise BoxTimeout(f"{self._name} did not take the job in time: {error}") from error
        except OSError as error:
            raise BoxGone(f"{self._name}: {type(error).__name__}: {error}") from error

    def receive(self, deadline: float) -> bytes:
        """The payload of the next frame. Raises BoxTimeout after `deadline`, BoxGone when the other end closes."""
        reader = FrameReader()
        while True:
            try:
                with self._in_use:
                    self._socket.settimeout(max(0.001, deadline - time.monotonic()))
                    chunk = self._socket.recv(_CHUNK_BYTES)
            except TimeoutError as error:
                raise BoxTimeout(f"{self._name} did not answer in time") from error
            except OSError as error:
                raise BoxGone(f"{self._name}: {type(error).__name__}: {error}") from error
            if not chunk:
                raise BoxGone(f"{self._name} ended")
            payload = self._unpack(chunk, reader)
            if payload is not None:
                return payload
            if time.monotonic() > deadline:
                raise BoxTimeout(f"{self._name} did not answer in time")

    def close(self) -> None:
        """Hang up. A thread that waits for an answer gets BoxGone."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with self._in_use:  # a closed descriptor may be reused at once: no thread may still wait for it
            self._socket.close()

    def _unpack(self, chunk: bytes, reader: FrameReader) -> bytes | None:
        """The payload, once `chunk` completes it."""
        return reader.feed(chunk)


class AttachedStream(FrameStream):
    """The streams of one container, over one connection to the daemon."""

    def __init__(self, attached: Any, *, name: str = "the container") -> None:
        """`attached` is the result of the SDK's `attach_socket`: a file over a socket."""
        super().__init__(attached._sock, name=name)
        self._attached = attached
        self._buffer = bytearray()
        self.complaint = b""
        """The end of the output on standard error, such as the error of an interpreter that does not start."""

    def send(self, frame: bytes, *, timeout_seconds: float) -> None:
        """See `FrameStream.send`."""
        if self._buffer:
            raise BoxGone(f"{self._name} spoke unasked")
        super().send(frame, timeout_seconds=timeout_seconds)

    def close(self) -> None:
        """See `FrameStream.close`."""
        # Before the container is killed: a daemon that waits for a client to read a flooding container does not answer a kill.
        super().close()
        self._attached.close()

    def _unpack(self, chunk: bytes, reader: FrameReader) -> bytes | None:
        """Feed the whole pieces so far to `reader`."""
        self._buffer += chunk
        payload = None
        while len(self._buffer) >= _PIECE.size:
            stream, num_bytes = _PIECE.unpack_from(self._buffer)
            if stream not in (_STDOUT, _STDERR) or num_bytes > _MAX_PIECE_BYTES:
                raise BoxGone(f"a piece of {num_bytes} bytes of stream {stream}")
            end = _PIECE.size + num_bytes
            if len(self._buffer) < end:
                break
            piece = bytes(self._buffer[_PIECE.size : end])
            del self._buffer[:end]
            if stream == _STDERR:
                self.complaint = (self.complaint + piece)[-_MAX_COMPLAINT_BYTES:]
            else:
                payload = reader.feed(piece)
        return payload
