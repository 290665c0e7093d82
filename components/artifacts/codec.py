"""Serialisation of values: tuples of numbers as safetensors columns, everything else as JSON, compressed by zstd.

A payload is a zstd frame around a safetensors file with three tensors: `structure` (JSON text), `ints` (int32 when all fit,
else int64) and `floats` (float64, so exact). `zstd -d` and any safetensors reader open it without Troupe.
"""

import json
from typing import Any, TypeVar

import numpy as np
import zstandard
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from components.artifacts.columns import Columns, is_record, record_adapter
from components.artifacts.records import first_complaint
from components.errors import ArtifactCorrupt, StoreRefused
from components.text.bounded_json import MAX_VALUES, parse_bounded_json

T = TypeVar("T")
_DAMAGED = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError)

SCHEMA_VERSION = 2
"""The version that `encode` writes, and the only one that `decode` reads."""

_COMPRESSION_LEVEL = 3
MAX_RATIO = 128
MIN_UNPACKED_BYTES = 16 << 20
"""A payload unpacks to at most `MAX_RATIO` times its size, or to this many bytes if that is more: the memory of a reader is
bounded by what it was sent. Tokens and log-probabilities pack to a third."""


def encode(value: Any) -> bytes:
    """A frozen dataclass or pydantic value as bytes; equal values give equal bytes.

    Raises TypeError if the value differs from its annotations, and StoreRefused if it packs so well that `decode` would refuse
    it as a decompression bomb.

    **Example** a RolloutShard of 128 nodes, 8 candidates each, 11 tokens each: `ints` holds 11,264 completion tokens,
    `floats` as many log-probabilities, and `structure` the texts, the outcomes and the lengths.
    """
    cls: Any = type(value)
    if not is_record(cls):
        raise TypeError(f"only dataclasses and pydantic models are stored, not {cls.__qualname__}")
    try:
        (checked,) = record_adapter(cls).validate_python((value,), strict=True)
    except ValidationError as error:
        raise TypeError(f"{cls.__qualname__}: {first_complaint(error)}") from error
    columns = Columns()
    structure = {"version": SCHEMA_VERSION, "type": cls.__qualname__, "value": columns.write(checked)}
    text = json.dumps(structure, separators=(",", ":"), check_circular=False).encode()
    ints = np.array(columns.ints, dtype=np.int64)
    narrow = ints.astype(np.int32)
    tensors = {
        "structure": np.frombuffer(text, dtype=np.uint8),
        "ints": narrow if np.array_equal(narrow, ints) else ints,
        "floats": np.array(columns.floats, dtype=np.float64),
    }
    compressor = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL, write_checksum=True, write_content_size=True)
    unpacked = save(tensors)
    content = compressor.compress(unpacked)
    if len(unpacked) > _max_unpacked_bytes(content):
        raise StoreRefused(
            f"a {cls.__qualname__} of {len(unpacked)} bytes packs to {len(content)}, and no payload above "
            f"{MIN_UNPACKED_BYTES} may pack to less than 1/{MAX_RATIO}; use more and smaller shards (rollout.num_shards)"
        )
    return content


def decode(content: bytes, as_type: type[T]) -> T:
    """The value that `encode` turned into `content`. Raises ArtifactCorrupt for any other bytes, type or version."""
    try:
        return _decode(content, as_type)
    # A damaged payload can fail at any layer, each with its own exceptions.
    except (zstandard.ZstdError, SafetensorError, *_DAMAGED) as e:
        why = first_complaint(e) if isinstance(e, ValidationError) else str(e)
        raise ArtifactCorrupt(f"these {len(content)} bytes are no stored {as_type.__qualname__}: {why}") from e


def _decode(content: bytes, as_type: type[T]) -> T:
    tensors = load(_unpack(content))
    columns = Columns(ints=tensors["ints"].tolist(), floats=tensors["floats"].tolist())
    structure = parse_bounded_json(
        tensors["structure"].tobytes(), max_values=max(MAX_VALUES, len(content)), object_hook=columns.read
    )
    if structure["version"] != SCHEMA_VERSION:
        raise ValueError(f"schema version {structure['version']}, this program reads {SCHEMA_VERSION}")
    if structure["type"] != as_type.__qualname__:
        raise ValueError(f"it is a {structure['type']}")
    columns.check_all_read()
    value: T
    record_type: Any = as_type
    (value,) = record_adapter(record_type).validate_python((structure["value"],))
    return value


def _unpack(content: bytes) -> bytes:
    """The content of a frame that states its size, within the limit."""
    num_bytes, allowed = zstandard.frame_content_size(content), _max_unpacked_bytes(content)
    if not 0 <= num_bytes <= allowed:
        raise ValueError(
            f"they unpack to {num_bytes if num_bytes >= 0 else 'no stated number of'} bytes, of at most {allowed}"
        )
    return zstandard.ZstdDecompressor().decompress(content, allow_extra_data=False)


def _max_unpacked_bytes(content: bytes) -> int:
    return max(MIN_UNPACKED_BYTES, MAX_RATIO * len(content))
