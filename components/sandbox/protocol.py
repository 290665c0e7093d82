"""What travels between this process and a box, and how far an answer is believed.

A frame is 4 bytes of length, big-endian, and a payload. A payload is 4 bytes of length, a header in JSON of that length, and
a body: the program, its input and its files on the way in, its outputs on the way back. Sizes are in the header, contents
are raw bytes, so nothing is escaped and the runner need not copy what it must forget.

    job     {"program": n, "stdin": n, "files": [[name, n]...], "outputs": [name...],
             "wall_seconds": s, "cpu_seconds": s, "memory_bytes": n, "output_bytes": n}
    answer  {"cut": s, "exit_code": n, "wall_seconds": s, "cpu_seconds": s, "num_stragglers": n, "refused": b,
             "out_of_memory": b, "clean": b, "stdout": n, "stderr": n, "files": [[name, n]...], "missing": [[name, s]...]}

A box may lie: the program may have got hold of it. An answer is data of known types, ranges and sizes, or the box is gone.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from components.errors import ConfigurationError
from components.sandbox.box import BoxGone
from components.sandbox.status import Ending, status_of
from components.schema import ExecutionResult, Limits

T = TypeVar("T")
Number = TypeVar("Number", int, float)
LENGTH = struct.Struct(">I")
MAX_OUTPUT_KIB = 4096
MAX_FILES = 16
MAX_FILE_BYTES = 1 << 20
MAX_ALL_FILES_BYTES = 4 << 20
MAX_HEADER_BYTES = 1 << 16
MAX_ANSWER_BYTES = 2 * MAX_OUTPUT_KIB * 1024 + MAX_ALL_FILES_BYTES + MAX_HEADER_BYTES + LENGTH.size
"""12 MiB and a header: the longest true answer."""
MAX_INPUT_BYTES = 16 << 20
MAX_NAME_BYTES = 255
TRUSTED_AFTER: frozenset[str] = frozenset({"ok", "nonzero_exit"})
"""After any other end a box is not used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a box said about one job. `reusable` is False on any doubt whether the next job would meet a clean box."""

    result: ExecutionResult
    reusable: bool


class FrameReader:
    """Puts one frame together from the chunks of a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> bytes | None:
        """The payload once it is whole, else None. Raises BoxGone when it is too long or when something follows it."""
        self._buffer += chunk
        if len(self._buffer) < LENGTH.size:
            return None
        (num_bytes,) = LENGTH.unpack_from(self._buffer)
        if num_bytes > MAX_ANSWER_BYTES:
            raise BoxGone(f"a frame of {num_bytes} bytes; the longest true one has {MAX_ANSWER_BYTES}")
        excess = len(self._buffer) - LENGTH.size - num_bytes
        if excess > 0:
            raise BoxGone(f"{excess} bytes follow the answer")
        return bytes(self._buffer[LENGTH.size :]) if excess == 0 else None


def encode_job(
    program: str, *, stdin: str, files: Mapping[str, str], outputs: tuple[str, ...], limits: Limits
) -> bytes:
    """The frame of one job. Raises ConfigurationError for names, sizes or limits that no box can serve."""
    _check_limits(limits)
    for name in (*files, *outputs):
        _check_name(name)
    if len(set(outputs)) > MAX_FILES:
        raise ConfigurationError(f"outputs: {len(set(outputs))} files; ask for at most {MAX_FILES}")
    # surrogatepass: a program may be any str, and one that is no text fails in the box, as a program.
    contents = [text.encode("utf-8", "surrogatepass") for text in (program, stdin, *files.values())]
    num_bytes = sum(map(len, contents))
    if num_bytes > MAX_INPUT_BYTES:
        raise ConfigurationError(f"files: program, stdin and files have {num_bytes} bytes, above {MAX_INPUT_BYTES}")
    header = {
        "program": len(contents[0]),
        "stdin": len(contents[1]),
        "files": [[name, len(content)] for name, content in zip(files, contents[2:], strict=True)],
        "outputs": list(dict.fromkeys(outputs)),
        "wall_seconds": limits.wall_seconds,
        "cpu_seconds": limits.cpu_seconds,
        "memory_bytes": limits.memory_mib << 20,
        "output_bytes": limits.output_kib << 10,
    }
    return encode_frame(header, *contents)


def encode_frame(header: Mapping[str, Any], *body: bytes) -> bytes:
    """A header and a body as they go over the wire."""
    head = json.dumps(header).encode()
    num_bytes = LENGTH.size + len(head) + sum(map(len, body))
    return b"".join((LENGTH.pack(num_bytes), LENGTH.pack(len(head)), head, *body))


def check_ready(payload: bytes) -> None:
    """Pass if this is the first frame of a runner that is ready. Raises BoxGone."""
    header, _ = _split(payload)
    if header.get("ready") is not True:
        raise BoxGone(f"the runner is not ready: {', '.join(header)[:200]!r}")


def decode_answer(payload: bytes, *, outputs: tuple[str, ...], limits: Limits) -> Answer:
    """What the box said about a job with these outputs and limits. Raises BoxGone for anything that is not as it must be."""
    header, body = _split(payload)
    output_bytes = limits.output_kib << 10
    stdout_bytes = _number(header, "stdout", int, 0, output_bytes)
    stderr_bytes = _number(header, "stderr", int, 0, output_bytes)
    files = _file_sizes(header, outputs)
    contents = _pieces(body, [stdout_bytes, stderr_bytes, *files.values()])
    texts = [content.decode("utf-8", "replace") for content in contents]
    end = Ending(
        cut=_one_of(header, "cut", ("", "output", "cpu", "wall")),
        exit_code=_number(header, "exit_code", int, -128, 255),
        cpu_seconds=_number(header, "cpu_seconds", float, 0, 1e6),
        num_stragglers=_number(header, "num_stragglers", int, 0, 1 << 20),
        refused=_one_of(header, "refused", (False, True)),
        out_of_memory=_one_of(header, "out_of_memory", (False, True)),
    )
    status, detail = status_of(end, cpu_limit_seconds=limits.cpu_seconds, stderr=texts[1])
    result = ExecutionResult(
        status=status,
        stdout=texts[0],
        stderr=texts[1],
        exit_code=end.exit_code,
        wall_seconds=_number(header, "wall_seconds", float, 0, 1e6),
        cpu_seconds=end.cpu_seconds,
        files=dict(zip(files, texts[2:], strict=True)),
        detail="; ".join(filter(None, [detail, *_missing(header, outputs)])),
    )
    trusted = _one_of(header, "clean", (False, True)) and end.num_stragglers == 0 and status in TRUSTED_AFTER
    return Answer(result=result, reusable=trusted)


def sandbox_error(detail: str) -> ExecutionResult:
    """The result of a job at which the sandbox failed."""
    return ExecutionResult(
        status="sandbox_error",
        stdout="",
        stderr="",
        exit_code=None,
        wall_seconds=0.0,
        cpu_seconds=0.0,
        detail=detail,
    )


def memory_used_up(detail: str, *, wall_seconds: float) -> ExecutionResult:
    """The result of a program that used up the memory of its box, and ended the runner by it."""
    return ExecutionResult(
        status="memory",
        stdout="",
        stderr="",
        exit_code=None,
        wall_seconds=wall_seconds,
        cpu_seconds=0.0,
        detail=f"it used up the memory of its box: {detail}",
    )


def _check_limits(limits: Limits) -> None:
    for name in ("wall_seconds", "cpu_seconds"):
        seconds = getattr(limits, name)
        if not 0.0 < seconds <= 3600.0:
            raise ConfigurationError(f"limits.{name} is {seconds}; choose more than 0 and at most 3600")
    if not 32 <= limits.memory_mib <= 1 << 20:
        raise ConfigurationError(f"limits.memory_mib is {limits.memory_mib}; choose 32 to {1 << 20}")
    if not 1 <= limits.output_kib <= MAX_OUTPUT_KIB:
        raise ConfigurationError(f"limits.output_kib is {limits.output_kib}; choose 1 to {MAX_OUTPUT_KIB}")


def _check_name(name: str) -> None:
    """Files lie in the working directory itself, under plain names."""
    num_bytes = len(name.encode("utf-8", "surrogatepass"))
    if name in {"", ".", ".."} or "/" in name or not name.isprintable() or num_bytes > MAX_NAME_BYTES:
        raise ConfigurationError(f"file name {name!r}; use a plain printable name without a folder")


def _split(payload: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header of a payload, and its body."""
    if len(payload) < LENGTH.size:
        raise BoxGone(f"an answer of {len(payload)} bytes has no header")
    end = LENGTH.size + LENGTH.unpack_from(payload)[0]
    if not LENGTH.size < end <= min(len(payload), LENGTH.size + MAX_HEADER_BYTES):
        raise BoxGone(f"a header of {end - LENGTH.size} bytes in an answer of {len(payload)}")
    try:
        header = json.loads(payload[LENGTH.size : end])
    except (ValueError, RecursionError) as error:
        raise BoxGone(f"the header is no JSON: {type(error).__name__}") from error
    if not isinstance(header, dict):
        raise BoxGone(f"the header is a {type(header).__name__}")
    if "internal" in header:
        raise BoxGone(f"the runner failed: {_shown(header['internal'])}")
    return header, memoryview(payload)[end:]


def _shown(value: Any) -> str:
    """A value of an answer for a message: short, and never deep."""
    return repr(value)[:100] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def _one_of(header: Mapping[str, Any], key: str, values: Sequence[T]) -> T:
    value = header.get(key)
    for known in values:
        if type(value) is type(known) and value == known:
            return known
    raise BoxGone(f"{key} is {_shown(value)}; one of {values} was due")


def _number(header: Mapping[str, Any], key: str, kind: type[Number], lowest: float, highest: float) -> Number:
    number = header.get(key)
    if type(number) is kind and math.isfinite(number) and lowest <= number <= highest:
        return number
    raise BoxGone(f"{key} is {_shown(number)}; a {kind.__name__} in {lowest:g} to {highest:g} was due")


def _pairs(header: Mapping[str, Any], key: str, outputs: tuple[str, ...]) -> dict[str, Any]:
    """A list of pairs, of which the first are names of outputs, each named once."""
    found: dict[str, Any] = {}
    entries = header.get(key)
    if not isinstance(entries, list):
        raise BoxGone(f"{key} is {_shown(entries)}; a list was due")
    for entry in entries:
        if not isinstance(entry, list) or len(entry) != 2 or entry[0] not in outputs or entry[0] in found:
            raise BoxGone(f"{key} names {_shown(entry)}, which was not asked for once")
        found[entry[0]] = entry[1]
    return found


def _file_sizes(header: Mapping[str, Any], outputs: tuple[str, ...]) -> dict[str, int]:
    found = _pairs(header, "files", outputs)
    return {name: _number(found, name, int, 0, MAX_FILE_BYTES) for name in found}


def _missing(header: Mapping[str, Any], outputs: tuple[str, ...]) -> list[str]:
    """Why files that were asked for are not there."""
    found = _pairs(header, "missing", outputs)
    for reason in found.values():
        if not isinstance(reason, str) or len(reason) > 100 or not reason.isprintable():
            raise BoxGone(f"missing says {_shown(reason)}")
    return [f"{name}: {reason}" for name, reason in found.items()]


def _pieces(body: memoryview, sizes: list[int]) -> list[bytes]:
    """The body in pieces of the sizes that the header names, which must be all of it."""
    if sum(sizes) != len(body):
        raise BoxGone(f"a body of {len(body)} bytes, of which the header names {sum(sizes)}")
    pieces, start = [], 0
    for size in sizes:
        pieces.append(bytes(body[start : start + size]))
        start += size
    return pieces
