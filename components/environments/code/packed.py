"""Long tests as compressed text: an episode carries its problem, and tests may take dozens of megabytes."""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

LEAST_PACKED_CHARACTERS = 1 << 18
"""Shorter tests of a problem stay plain, as people read them."""
MAX_TESTS_BYTES = 64 << 20
"""Of all tests of one problem, as JSON."""
_NAMES = ("visible", "hidden", "spare")


def num_characters(problem: Mapping[str, Any]) -> int:
    """Of all inputs and outputs."""
    return sum(len(text) for name in _NAMES for case in problem[name] for text in case)


def pack_problem(problem: Mapping[str, Any]) -> dict[str, Any]:
    """A problem as JSON, its tests as the base64 of the zlib of their JSON in `pack_problem` if they are long."""
    if num_characters(problem) < LEAST_PACKED_CHARACTERS:
        return dict(problem)
    tests = json.dumps([problem[name] for name in _NAMES], separators=(",", ":"))
    rest = {name: value for name, value in problem.items() if name not in _NAMES}
    return {**rest, "packed": base64.b64encode(zlib.compress(tests.encode())).decode()}


def unpack_problem(problem: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `pack_problem` was made from. Raises ValueError for anything else, and for tests above `MAX_TESTS_BYTES`."""
    if "packed" not in problem:
        return problem
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(base64.b64decode(problem["packed"], validate=True), MAX_TESTS_BYTES)
    except zlib.error as error:
        raise ValueError(f"packed: {error}") from error
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"packed: cut short, or tests of more than {MAX_TESTS_BYTES} bytes")
    rest = {name: value for name, value in problem.items() if name != "packed"}
    return {**rest, **dict(zip(_NAMES, json.loads(content), strict=True))}
