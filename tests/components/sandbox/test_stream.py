"""What a daemon sends between a container and us: pieces of any size, and no more than the truth."""

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.sandbox.box import BoxGone, BoxTimeout
from components.sandbox.stream import AttachedStream, FrameStream

STDOUT, STDERR = 1, 2


class Attached(socket.SocketIO):
    """As the SDK returns it."""


class Pair:
    """An attached stream, and the daemon's end of it."""

    def __init__(self) -> None:
        self.daemon, ours = socket.socketpair()
        self.stream = AttachedStream(Attached(ours, "rw"))

    def send_in_chunks(self, wire: bytes, chunk_size: int) -> None:
        for start in range(0, len(wire), chunk_size):
            self.daemon.sendall(wire[start : start + chunk_size])

    def close(self) -> None:
        self.stream.close()
        self.daemon.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def piece(content: bytes, stream: int = STDOUT) -> bytes:
    return struct.pack(">BxxxI", stream, len(content)) + content


def frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def soon() -> float:
    return time.monotonic() + 5


@settings(deadline=None, max_examples=50)
@given(
    payloads=st.lists(st.binary(max_size=300), min_size=1, max_size=3),
    piece_sizes=st.lists(st.integers(1, 50), min_size=1, max_size=5),
    chunk_size=st.integers(1, 97),
)
def test_frames_arrive_whole_however_the_daemon_and_the_wire_cut_them(
    payloads: list[bytes], piece_sizes: list[int], chunk_size: int
) -> None:
    pair = Pair()
    try:
        for payload in payloads:
            left, wire, cut = frame(payload), b"", 0
            while left:
                size = piece_sizes[cut % len(piece_sizes)]
                wire, left, cut = wire + piece(left[:size]) + piece(b"!", STDERR), left[size:], cut + 1
            wire = wire[: -len(piece(b"!"))]  # nothing may follow the answer
            pair.stream.send(b"job", timeout_seconds=5)
            sender = threading.Thread(target=pair.send_in_chunks, args=(wire, chunk_size))
            sender.start()
            assert pair.stream.receive(soon()) == payload
            sender.join()
            assert pair.daemon.recv(100) == b"job"
    finally:
        pair.close()


def test_complaints_on_standard_error_are_kept_and_are_no_answer(pair: Pair) -> None:
    pair.daemon.sendall(piece(b"x" * 5000 + b"no such library", STDERR))
    pair.daemon.shutdown(socket.SHUT_WR)
    with pytest.raises(BoxGone, match="ended"):
        pair.stream.receive(soon())
    assert len(pair.stream.complaint) == 2000
    assert pair.stream.complaint.endswith(b"no such library")


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(piece(frame(b"answer")) + piece(frame(b"another")), id="two-answers"),
        pytest.param(piece(frame(b"answer") + b"?"), id="more-than-an-answer"),
        pytest.param(piece(b"answer", stream=7), id="a-stream-that-there-is-not"),
        pytest.param(struct.pack(">BxxxI", STDOUT, 1 << 31), id="a-piece-too-long"),
        pytest.param(piece(struct.pack(">I", 1 << 31)), id="a-frame-too-long"),
        pytest.param(piece(frame(b"answer")[:-1]), id="half-an-answer"),
    ],
)
def test_anything_but_one_whole_answer_ends_the_box(pair: Pair, wire: bytes) -> None:
    pair.daemon.sendall(wire)
    pair.daemon.shutdown(socket.SHUT_WR)
    with pytest.raises(BoxGone):
        pair.stream.receive(soon())


def test_half_a_piece_after_an_answer_ends_the_box_at_the_next_job(pair: Pair) -> None:
    pair.daemon.sendall(piece(frame(b"answer")) + b"\x01\x00")
    assert pair.stream.receive(soon()) == b"answer"
    with pytest.raises(BoxGone, match="unasked"):
        pair.stream.send(b"job", timeout_seconds=5)


def test_a_stream_that_drips_is_not_waited_for_longer_than_a_silent_one(pair: Pair) -> None:
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.05):
            pair.daemon.sendall(piece(b"\x00"))

    pair.daemon.sendall(piece(struct.pack(">I", 1000)))
    dripping = threading.Thread(target=drip)
    dripping.start()
    started = time.monotonic()
    with pytest.raises(BoxGone, match=r"in time|timed out"):
        pair.stream.receive(started + 0.4)
    assert time.monotonic() - started < 2
    stop.set()
    dripping.join()


def test_closing_wakes_whoever_waits(pair: Pair) -> None:
    threading.Timer(0.2, pair.stream.close).start()
    started = time.monotonic()
    with pytest.raises(BoxGone):
        pair.stream.receive(started + 30)
    assert time.monotonic() - started < 5


def test_closing_wakes_whoever_sends(pair: Pair) -> None:
    threading.Timer(0.2, pair.stream.close).start()
    started = time.monotonic()
    with pytest.raises(BoxGone):
        pair.stream.send(b"x" * (64 << 20), timeout_seconds=30)
    assert time.monotonic() - started < 5


def test_a_plain_stream_gives_the_answer_or_says_why_there_is_none() -> None:
    theirs, ours = socket.socketpair()
    stream = FrameStream(ours)
    try:
        theirs.sendall(frame(b"answer"))
        assert stream.ask(b"job", timeout_seconds=5) == b"answer"
        assert theirs.recv(100) == b"job"
        with pytest.raises(BoxTimeout, match="the box did not answer in time"):
            stream.ask(b"job", timeout_seconds=0.1)
        theirs.close()
        with pytest.raises(BoxGone) as gone:
            stream.ask(b"job", timeout_seconds=5)
        assert not isinstance(gone.value, BoxTimeout)
    finally:
        stream.close()
        theirs.close()


def test_a_frame_that_nobody_reads_is_given_up(pair: Pair) -> None:
    with pytest.raises(BoxGone, match=r"TimeoutError|timed out"):
        pair.stream.send(b"x" * (64 << 20), timeout_seconds=0.3)
