"""The attached standard streams of a container: frames in, and the runner's frames out of the daemon's pieces."""

import contextlib
import socket
import struct
import time
from typing import Any

from components.sandbox.box import BoxGone, BoxSilent
from components.sandbox.protocol import FrameReader

_CHUNK_BYTES = 1 << 16
_PIECE = struct.Struct(">BxxxI")  # before each piece of output: which stream, how many bytes
_STDOUT, _STDERR = 1, 2
_MAX_PIECE_BYTES = 1 << 20
_MAX_COMPLAINT_BYTES = 2000
_LOOK_SECONDS = 2.0
"""How often a reader looks whether somebody hung up: the wake-up of a descriptor that another thread closes can be lost."""


class AttachedStream:
    """One container's streams, over the connection that the daemon gave up to them."""

    def __init__(self, attached: Any) -> None:
        """`attached` is what the SDK's `attach_socket` returned: a file over a socket."""
        self._attached = attached
        self._socket: socket.socket = attached._sock
        self._buffer = bytearray()
        self._hung_up = False
        self.complaint = b""
        """The end of what came on standard error: what an interpreter says that does not start."""

    def send(self, frame: bytes, *, timeout_seconds: float) -> None:
        """Send one frame. Raises BoxGone, BoxSilent."""
        if self._buffer:
            raise BoxGone("the container spoke unasked")
        try:
            self._socket.settimeout(timeout_seconds)
            self._socket.sendall(frame)
        except TimeoutError as error:
            raise BoxSilent(f"the container did not take the job in time: {error}") from error
        except OSError as error:
            raise BoxGone(f"{type(error).__name__}: {error}") from error

    def receive(self, deadline: float) -> bytes:
        """The payload of the next frame. Raises BoxSilent after `deadline`, and BoxGone, also when the daemon died: its end
        of the stream closes."""
        reader = FrameReader()
        while True:
            payload = self._unpack(reader)
            if payload is not None:
                return payload
            left = deadline - time.monotonic()
            if left <= 0:
                raise BoxSilent("the container did not answer in time")
            if self._hung_up:
                raise BoxGone("the box was closed")
            try:
                self._socket.settimeout(min(left, _LOOK_SECONDS))
                chunk = self._socket.recv(_CHUNK_BYTES)
            except TimeoutError:
                continue
            except OSError as error:
                raise BoxGone(f"{type(error).__name__}: {error}") from error
            if not chunk:
                raise BoxGone("the container ended")
            self._buffer += chunk

    def close(self) -> None:
        """Hang up, from any thread; a waiting reader stops waiting."""
        # A daemon that waits for a client to read a flooding container does not answer a kill: shut the stream first.
        self._hung_up = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._attached.close()

    def _unpack(self, reader: FrameReader) -> bytes | None:
        """Hand the whole pieces of the buffer to `reader`; the payload once it is whole."""
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
