"""The codec round-trips values exactly, with equal bytes for equal values, and refuses other bytes."""

import base64
import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from components.artifacts import codec
from components.artifacts.codec import decode, encode
from components.artifacts.refs import ArtifactRef, CheckpointRef, StageManifest
from components.config import RunConfig
from components.errors import ArtifactCorrupt, StoreRefused
from components.identity import GroupKey
from components.schema import (
    ActionOutcome,
    ApiUsage,
    Candidate,
    Episode,
    EvalReport,
    IterationReport,
    Node,
    Problem,
    RolloutShard,
    ScoredShard,
    TrainGroup,
)
from tests.components.artifacts import values
from tests.costs import assert_cheap
from tests.sections import make_config


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    tokens: tuple[int, ...]
    values: tuple[float, ...]
    text: str


def same(left: Any, right: Any) -> bool:
    """Equal values of equal types, all the way down."""
    if type(left) is not type(right):
        return False
    if dataclasses.is_dataclass(left):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left))
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return repr(left) == repr(right)
    return bool(left == right)


@given(value=values.any_stored)
@settings(max_examples=100, deadline=None)
def test_every_value_comes_back_with_its_types(value: Any) -> None:
    content = encode(value)
    again = decode(content, type(value))
    assert same(again, value)
    assert encode(again) == content


@given(
    tokens=st.lists(st.integers()).map(tuple),
    numbers=st.lists(st.floats()).map(tuple),
    text=st.text(st.characters(exclude_categories=())),
)
@settings(max_examples=100, deadline=None)
def test_numbers_of_any_size_and_any_text_are_exact(
    tokens: tuple[int, ...], numbers: tuple[float, ...], text: str
) -> None:
    note = Note(tokens=tokens, values=numbers, text=text)
    assert same(decode(encode(note), Note), note)


@pytest.mark.parametrize("scalar", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308])
def test_special_floats_survive_in_columns_and_in_structure(scalar: float) -> None:
    outcome = ActionOutcome(team={"x": scalar}, local={}, solves=False, done=False)
    candidate = Candidate(
        tokens=(), sampler_logprobs=(scalar,), finish_reason="stop", text="", outcome=outcome, reward=scalar
    )
    again = decode(encode(candidate), Candidate)
    assert repr((again.reward, again.sampler_logprobs, again.outcome.team)) == repr((scalar, (scalar,), {"x": scalar}))


@pytest.mark.parametrize(("largest", "dtype"), [(2**31 - 1, "int32"), (2**31, "int64"), (-(2**63), "int64")])
def test_ints_take_the_narrowest_column_that_is_exact(largest: int, dtype: str) -> None:
    content = encode(Note(tokens=(1, largest), values=(), text=""))
    assert str(load(zstandard.decompress(content))["ints"].dtype) == dtype
    assert decode(content, Note).tokens == (1, largest)


def test_equal_mappings_give_equal_bytes_whatever_their_order() -> None:
    first = Problem(problem_id="p", environment="e", payload={"a": 1, "b": {"c": 2, "d": 3}})
    second = Problem(problem_id="p", environment="e", payload={"b": {"d": 3, "c": 2}, "a": 1})
    assert encode(first) == encode(second)


def test_ints_given_where_floats_are_declared_give_the_bytes_of_floats() -> None:
    as_ints = ScoredShard(step=0, shard=0, rewards_E_N_K=(((1, None),),))
    as_floats = ScoredShard(step=0, shard=0, rewards_E_N_K=(((1.0, None),),))
    assert encode(as_ints) == encode(as_floats)


def test_pydantic_values_come_back() -> None:
    folder = ArtifactRef(kind="folder", key="folders/x", sha256="x", num_bytes=2, files={"a/b": ("y", 2)})
    checkpoint = CheckpointRef(policy="main", step=3, folder=folder, weights_digest="w", optimizer_digest="o")
    assert decode(encode(checkpoint), CheckpointRef) == checkpoint
    manifest = StageManifest(
        stage="s", key="k", output={"x": [1, 2.5, None]}, attempt=1, seconds=0.5, finished_at="2026-01-01"
    )
    assert decode(encode(manifest), StageManifest) == manifest
    config = make_config({"name": "plan_path", "options": {"size": 5}}, "plan_agent")
    assert decode(encode(config), RunConfig) == config


def test_a_value_of_another_type_is_refused() -> None:
    content = encode(ScoredShard(step=0, shard=0, rewards_E_N_K=()))
    with pytest.raises(ArtifactCorrupt, match="it is a ScoredShard"):
        decode(content, RolloutShard)


def test_another_schema_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode(Note(tokens=(), values=(), text=""))
    monkeypatch.setattr(codec, "SCHEMA_VERSION", 3)
    with pytest.raises(ArtifactCorrupt, match="schema version 2, this program reads 3"):
        decode(content, Note)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b'{"version": 1}', zstandard.compress(b"not safetensors")])
def test_foreign_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ArtifactCorrupt):
        decode(content, Note)


def test_every_truncation_and_every_flipped_byte_is_noticed() -> None:
    content = encode(Note(tokens=(1, 2, 3), values=(0.5,), text="hello"))
    for index in range(len(content)):
        with pytest.raises(ArtifactCorrupt):
            decode(content[:index], Note)
        flipped = bytearray(content)
        flipped[index] ^= 0x10
        try:
            decoded = decode(bytes(flipped), Note)
        except ArtifactCorrupt:
            continue
        # A few bits of the zstd header have no meaning; then the value must be unchanged.
        assert decoded == Note(tokens=(1, 2, 3), values=(0.5,), text="hello")


def test_a_field_added_later_takes_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    old = dataclasses.make_dataclass("Grown", [("step", int)], frozen=True, kw_only=True)
    new = dataclasses.make_dataclass(
        "Grown", [("note", str, dataclasses.field(default="none")), ("step", int)], frozen=True, kw_only=True
    )
    assert decode(encode(old(step=4)), new) == new(step=4, note="none")
    with pytest.raises(ArtifactCorrupt, match="note"):
        decode(encode(new(step=4, note="some")), old)


def test_what_the_annotations_do_not_promise_is_refused() -> None:
    with pytest.raises(TypeError, match="only dataclasses"):
        encode({"a": 1})
    with pytest.raises(TypeError, match="str keys"):
        encode(Problem(problem_id="p", environment="e", payload={"a": {1: 2}}))
    with pytest.raises(TypeError, match="group: Input should be an instance of GroupKey"):
        encode(TrainGroup(group="g", prompt_tokens=(), completions_K_T=(), sampler_logprobs_K_T=(), advantages_K=()))


def test_reports_without_optional_rates_come_back() -> None:
    report = EvalReport(
        agent="a",
        suite="s",
        suite_digest="d",
        step=0,
        sampling="greedy",
        seed=0,
        num_samples=1,
        num_solved_P=(1, 0, 0, 0),
        n=4,
        num_successes=1,
        success_rate=0.25,
        interval=(0.05, 0.7),
        mean_reward=0.1,
        keep_rate=None,
        repair_rate=None,
    )
    assert decode(encode(report), EvalReport) == report
    done = IterationReport(
        run_id="r", step=1, metrics={}, timings={}, checkpoint_digest={"main": "d"}, optimizer_digest={}
    )
    assert decode(encode(done), IterationReport) == done


def test_a_usual_shard_is_coded_in_some_milliseconds() -> None:
    shard = values.a_shard()
    started = time.process_time()
    content = encode(shard)
    encoded = time.process_time()
    assert decode(content, RolloutShard) == shard
    decoded = time.process_time()
    assert len(content) < 200_000
    # 8 ms each on a fast machine; the bound leaves room for slow ones.
    assert encoded - started < 0.25
    assert decoded - encoded < 0.25


def pack(tensors: Mapping[str, np.ndarray[Any, Any]], **structure: Any) -> bytes:
    """A handmade payload."""
    text = json.dumps({"version": codec.SCHEMA_VERSION, "type": "Note", **structure})
    parts = {"ints": np.zeros(0, np.int32), "floats": np.zeros(0), **tensors}
    parts.setdefault("structure", np.frombuffer(text.encode(), np.uint8))
    return zstandard.compress(save(parts))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    anything: Any


def note(*, num_ints: int = 0, num_floats: int = 0) -> dict[str, Any]:
    """The structure of a Note with its numbers in the columns."""
    return {"tokens": {"$ints": num_ints}, "values": {"$floats": num_floats}, "text": ""}


DEEP = b'{"version":2,"type":"Loose","value":{"anything":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
BOMBS: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "a GiB of zeros": (lambda: zeros(1 << 30), "unpack to 1073741824 bytes, of at most 16777216"),
    "no stated size": (
        lambda: zstandard.ZstdCompressor(write_content_size=False).compress(bytes(100 << 20)),
        "no stated number of bytes",
    ),
    "a frame that lies about its size": (
        lambda: zeros(100 << 20).replace((100 << 20).to_bytes(4, "little"), (1 << 20).to_bytes(4, "little"), 1),
        "no stored Note",
    ),
    "seventeen MiB of numbers": (
        lambda: pack({"ints": np.zeros((17 << 20) // 4, np.int32)}, value=note()),
        "of at most 16777216",
    ),
    "a structure of lists": (
        lambda: pack({"structure": np.frombuffer(b"[" + b"[]," * 5_000_000 + b"0]", np.uint8)}),
        "values; at most",
    ),
    "lists in lists": (
        lambda: pack({"structure": np.frombuffer(b"[" * 100_000, np.uint8)}),
        "nested too deep",
    ),
    "numbers read back and forth": (
        lambda: pack({"ints": np.zeros(1 << 20, np.int32)}, value=note(num_ints=-5)),
        "-5 numbers are named where 1048576 are left",
    ),
    "more numbers than there are": (lambda: pack({}, value=note(num_ints=1)), "1 numbers are named where 0 are left"),
    "more floats than there are": (
        lambda: pack({}, value=note(num_floats=7)),
        "7 numbers are named where 0 are left",
    ),
    "bytes behind the frame": (
        lambda: encode(Note(tokens=(), values=(), text="")) + bytes(8),
        "no stored Note",
    ),
}


def zeros(num_bytes: int) -> bytes:
    """A frame of zeros, compressed in chunks."""
    compressor = zstandard.ZstdCompressor().compressobj(size=num_bytes)
    piece = bytes(1 << 20)
    return b"".join([*(compressor.compress(piece) for _ in range(num_bytes >> 20)), compressor.flush()])


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_by_name_before_it_fills_the_memory(name: str) -> None:
    make, words = BOMBS[name]
    content = make()

    def expect_refusal() -> None:
        with pytest.raises(ArtifactCorrupt, match=words):
            decode(content, Note)

    assert_cheap([(name, expect_refusal)])


def test_what_is_nested_deeper_than_json_reads_is_corrupt() -> None:
    content = zstandard.compress(
        save({"structure": np.frombuffer(DEEP, np.uint8), "ints": np.zeros(0, np.int32), "floats": np.zeros(0)})
    )
    assert len(content) < 300
    with pytest.raises(ArtifactCorrupt, match="no stored Loose"):
        decode(content, Loose)
    nest: Any = []
    for _ in range(200):
        nest = [nest]
    assert decode(encode(Loose(anything=nest)), Loose) == Loose(anything=nest)


def test_what_would_be_taken_for_a_bomb_is_not_written() -> None:
    with pytest.raises(StoreRefused, match="use more and smaller shards"):
        encode(Note(tokens=(0,) * (5 << 20), values=(), text=""))
    usual = Note(tokens=tuple(range(1 << 17)), values=tuple(n / 7 for n in range(1 << 17)), text="")
    assert decode(encode(usual), Note) == usual


def test_fields_at_their_defaults_are_left_out_of_the_bytes_and_come_back() -> None:
    plain, again = (node_of(repeat=repeat, parallel_index=0) for repeat in (0, 1))
    beside = node_of(repeat=0, parallel_index=1)
    trees = {node: structure_of(encode(node))["value"] for node in (plain, again, beside)}
    assert trees[plain].keys().isdisjoint({"parallel_index", "chosen_randomly"})
    assert "repeat" not in trees[plain]["group"]
    assert (trees[again]["group"]["repeat"], trees[beside]["parallel_index"]) == (1, 1)
    for node in (plain, again, beside):
        assert same(decode(encode(node), Node), node)
    problem = Problem(problem_id="p", environment="toy", payload={})
    mixed = Episode(problem=problem, episode=0, nodes=(plain, again, beside, plain), success=False)
    assert same(decode(encode(mixed), Episode), mixed)


def test_a_zero_of_either_sign_is_exact_where_zero_is_the_default() -> None:
    for cost in (0.0, -0.0):
        assert same(decode(encode(ApiUsage(cost=cost)), ApiUsage), ApiUsage(cost=cost))


@pytest.mark.parametrize("key", ["$ints", "$floats", "$tuple", "$$ints", "$", "ints"])
def test_keys_that_look_like_marks_are_keys(key: str) -> None:
    loose = Loose(anything={key: [1, (2, 3), {key: 4}], "other": {key: (0.5,)}, "alone": {key: 3}})
    assert same(decode(encode(loose), Loose), loose)


def test_numbers_of_numpy_are_written_as_pythons() -> None:
    value = np.float64(0.5)
    shard = ScoredShard(step=0, shard=0, rewards_E_N_K=(((value, None),),))
    assert encode(shard) == encode(ScoredShard(step=0, shard=0, rewards_E_N_K=(((0.5, None),),)))


def test_a_payload_of_the_first_schema_is_refused_in_one_line() -> None:
    content = base64.b64decode(
        "KLUv/WQfAdUJAJaROClgRdocMAzDMMgaMPRpy125Hxn5b7K2v014GwKkw5UVqDWFokFgiwJENi4ALgAtAA/bUzazZVySAWXhtWukEEXSRsfhxJKLXRWS"
        "1iJevxQknPnCR7JDzKNc7JxDR4Abt2lmfD3lXs9YB8ENnxjmtjnXL+PYIMI1Yf64xd7GoeM4AgSiSCUEii4Gi3IQizX2VrMRLBMSMrifpjlWvJ4ObLF7"
        "FrwyHndrvAb5VrGuZy3xLAOc3ApX9ebukXJuPlVqo1tO0kQP1xVRJCmiKoL0D8unxHynW41rpM622UEAu5EXzcokIFACMQzqAdMYL0p+KMakjdF4hTY1"
        "zogOUaaexbvduBG6HYVltQml/FpXHjxHf7Eq1gGWxqb1IoCrWwFTWrBkvnf3RgPO8paY3uKxF6SBa+GVMdAG9LgvOw=="
    )
    with pytest.raises(ArtifactCorrupt, match="schema version 1, this program reads 2") as refused:
        decode(content, Episode)
    assert "\n" not in str(refused.value)


def node_of(*, repeat: int, parallel_index: int) -> Node:
    group = GroupKey(problem_id="p", episode=0, turn=0, agent="a", repeat=repeat)
    return Node(group=group, policy="p", prompt_tokens=(1,), candidates=(), chosen=0, parallel_index=parallel_index)


def structure_of(content: bytes) -> Any:
    """The JSON of a payload."""
    return json.loads(load(zstandard.decompress(content))["structure"].tobytes())
