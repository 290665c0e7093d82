"""An answer is data of known types, ranges and sizes, or the box is gone."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.sandbox.box import BoxGone
from components.sandbox.protocol import (
    LENGTH,
    MAX_ANSWER_BYTES,
    MAX_FILES,
    MAX_INPUT_BYTES,
    FrameReader,
    check_ready,
    decode_answer,
    encode_frame,
    encode_job,
)
from components.schema import Limits
from tests.components.sandbox.answers import answer, payload_of

LIMITS = Limits(output_kib=1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def job(program: str = "", **changes: Any) -> bytes:
    arguments = {"stdin": "", "files": {}, "outputs": (), "limits": Limits(), **changes}
    return encode_job(program, **arguments)


def test_a_job_holds_its_contents_as_they_are_and_their_sizes() -> None:
    frame = job("print(1)", stdin="é", files={"a.txt": "A"}, outputs=("b.txt", "b.txt"))
    (num_bytes,) = LENGTH.unpack_from(frame)
    (num_head,) = LENGTH.unpack_from(frame, 4)
    header = json.loads(frame[8 : 8 + num_head])
    assert num_bytes == len(frame) - 4
    assert frame[8 + num_head :] == b"print(1)" + "é".encode() + b"A"
    assert (header["program"], header["stdin"], header["files"]) == (8, 2, [["a.txt", 1]])
    assert (header["outputs"], header["memory_bytes"], header["output_bytes"]) == (["b.txt"], 256 << 20, 64 << 10)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"files": {"../a": ""}}, "../a"),
        ({"files": {"": ""}}, "''"),
        ({"outputs": ("/etc/passwd",)}, "passwd"),
        ({"outputs": ("a\0b",)}, "a\\\\x00b"),
        ({"outputs": ("é" * 200,)}, "éé"),
        ({"outputs": tuple(f"f{i}" for i in range(MAX_FILES + 1))}, "17 files"),
        ({"stdin": "a" * MAX_INPUT_BYTES, "files": {"b": "b"}}, str(MAX_INPUT_BYTES + 1)),
        ({"limits": Limits(wall_seconds=0)}, "wall_seconds is 0"),
        ({"limits": Limits(cpu_seconds=float("nan"))}, "cpu_seconds is nan"),
        ({"limits": Limits(memory_mib=8)}, "memory_mib is 8"),
        ({"limits": Limits(output_kib=5000)}, "output_kib is 5000"),
    ],
)
def test_a_job_that_no_box_can_serve_is_the_users_mistake(changes: dict[str, Any], names: str) -> None:
    with pytest.raises(ConfigurationError, match=names):
        job(**changes)


@given(payload=st.binary(max_size=50), cuts=st.lists(st.integers(0, 54), max_size=5))
def test_a_frame_is_whole_however_the_stream_cuts_it(payload: bytes, cuts: list[int]) -> None:
    frame = LENGTH.pack(len(payload)) + payload
    edges = [0, *sorted(min(cut, len(frame)) for cut in cuts), len(frame)]
    chunks = [frame[start:end] for start, end in itertools.pairwise(edges) if start < end]
    reader = FrameReader()
    assert [reader.feed(chunk) for chunk in chunks] == [None] * (len(chunks) - 1) + [payload]


def test_a_frame_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(BoxGone, match="bytes"):
        FrameReader().feed(LENGTH.pack(MAX_ANSWER_BYTES + 1))
    with pytest.raises(BoxGone, match="1 bytes follow"):
        FrameReader().feed(LENGTH.pack(1) + b"ab")


def test_a_true_answer_is_told_as_it_is() -> None:
    payload = answer(b"out\xff", b"err", {"b": b"B"}, exit_code=3, missing=[["c", "No such file"]])
    got = decode_answer(payload, outputs=("b", "c"), limits=LIMITS)
    assert got.reusable
    assert got.result.status == "nonzero_exit"
    assert (got.result.stdout, got.result.stderr, got.result.files) == ("out�", "err", {"b": "B"})
    assert (got.result.exit_code, got.result.wall_seconds, got.result.cpu_seconds) == (3, 0.01, 0.005)
    assert got.result.detail == "it ended with exit code 3; c: No such file"


@pytest.mark.parametrize(
    "doubt", [{"clean": False}, {"num_stragglers": 1}, {"cut": "wall"}, {"cut": "output"}, {"cpu_seconds": 9.0}]
)
def test_a_box_is_not_used_again_on_any_doubt(doubt: dict[str, Any]) -> None:
    assert decode_answer(answer(), outputs=(), limits=LIMITS).reusable
    assert not decode_answer(answer(**doubt), outputs=(), limits=LIMITS).reusable


@pytest.mark.parametrize(
    "lie",
    [
        {"cut": "ok"},
        {"cut": None},
        {"exit_code": True},
        {"exit_code": None},
        {"exit_code": 256},
        {"exit_code": 0.0},
        {"wall_seconds": -1.0},
        {"wall_seconds": float("nan")},
        {"cpu_seconds": float("inf")},
        {"cpu_seconds": "1"},
        {"num_stragglers": -1},
        {"refused": 1},
        {"clean": "yes"},
        {"stdout": 1},
        {"stdout": 1 << 40},
        {"stderr": -1},
        {"files": {}},
        {"files": [["b", 0], ["b", 0]]},
        {"files": [["unasked", 0]]},
        {"files": [["b", 1 << 30]]},
        {"files": [[["b"], 0]]},
        {"files": ["b"]},
        {"missing": [["b", "a\nb"]]},
        {"missing": [["b", 1]]},
        {"missing": None},
        {"internal": "OSError"},
    ],
)
def test_an_answer_with_anything_odd_is_no_answer(lie: dict[str, Any]) -> None:
    with pytest.raises(BoxGone):
        decode_answer(answer(**lie), outputs=("b",), limits=LIMITS)


def test_more_output_than_was_allowed_is_no_answer() -> None:
    assert decode_answer(answer(bytes(1024)), outputs=(), limits=LIMITS).result.stdout == "\0" * 1024
    with pytest.raises(BoxGone, match="stdout is 1025"):
        decode_answer(answer(bytes(1025)), outputs=(), limits=LIMITS)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\0",
        LENGTH.pack(0),
        LENGTH.pack(9) + b"{}",
        LENGTH.pack(2) + b"[]",
        LENGTH.pack(1) + b"\xff",
        LENGTH.pack(60_000) + b"[" * 60_000,
        LENGTH.pack(5_002) + b"[" + b"1" * 5000 + b"]",
    ],
)
def test_a_payload_without_a_header_is_no_answer(payload: bytes) -> None:
    with pytest.raises(BoxGone):
        decode_answer(payload, outputs=(), limits=LIMITS)


@given(key=st.sampled_from(sorted(json.loads(answer()[4 : 4 + LENGTH.unpack_from(answer())[0]]))), value=json_values)
@settings(max_examples=300)
def test_no_value_in_a_header_makes_more_trouble_than_a_box_that_is_gone(key: str, value: Any) -> None:
    try:
        got = decode_answer(answer(**{key: value}), outputs=("b",), limits=LIMITS)
    except BoxGone:
        return
    got.result.stdout.encode(), got.result.detail.encode()
    assert got.result.status != "sandbox_error"


@given(payload=st.binary(max_size=200), position=st.integers(0, 300), flips=st.binary(min_size=1, max_size=4))
@settings(max_examples=300)
def test_no_bytes_make_more_trouble_than_a_box_that_is_gone(payload: bytes, position: int, flips: bytes) -> None:
    true = answer(b"some", b"thing")
    mutated = true[:position] + flips + true[position + len(flips) :]
    for candidate in (payload, mutated):
        try:
            decode_answer(candidate, outputs=(), limits=LIMITS)
        except BoxGone:
            continue


def test_only_a_ready_runner_is_ready() -> None:
    check_ready(payload_of(encode_frame({"ready": True})))
    for header in ({}, {"ready": 1}, {"ready": "yes"}):
        with pytest.raises(BoxGone, match="not ready"):
            check_ready(payload_of(encode_frame(header)))
