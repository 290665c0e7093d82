"""What travels between this process and a box, and how an answer is checked.

A frame is 4 bytes of length, big-endian, and a payload. A payload is 4 bytes of length, a JSON header of that length, and a
body: the program, its input and its files on the way in, its outputs on the way back. The header has the sizes, the body is
raw bytes, so nothing is escaped and the runner need not copy what it must forget.

    job     {"program": n, "stdin": n, "files": [[name, n]...], "outputs": [name...],
             "wall_seconds": s, "cpu_seconds": s, "memory_bytes": n, "output_bytes": n}
    answer  {"cut": s, "exit_code": n, "wall_seconds": s, "cpu_seconds": s, "num_stragglers": n, "refused": b,
             "out_of_memory": b, "clean": b, "stdout": n, "stderr": n, "files": [[name, n]...], "missing": [[name, s]...]}

A box may lie: the program may control it. An answer is data of known types, ranges and sizes, or the box is replaced.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, ValidationError

from components.errors import ConfigurationError
from components.sandbox.box import BoxGone
from components.sandbox.status import Ending, Seconds, status_of
from components.schema import ExecutionResult, Limits

LENGTH = struct.Struct(">I")
MAX_OUTPUT_KIB = 4096
MAX_FILES = 16
MAX_FILE_BYTES = 1 << 20
MAX_ALL_FILES_BYTES = 4 << 20
MAX_HEADER_BYTES = 1 << 16
MAX_ANSWER_BYTES = 2 * MAX_OUTPUT_KIB * 1024 + MAX_ALL_FILES_BYTES + MAX_HEADER_BYTES + LENGTH.size
"""12 MiB and a header: the longest honest answer."""
MAX_INPUT_BYTES = 16 << 20
MAX_NAME_BYTES = 255
TRUSTED_AFTER: frozenset[str] = frozenset({"ok", "nonzero_exit"})
"""After any other status a box is not used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one job. `reusable` is False on any doubt whether the box is clean for the next job."""

    result: ExecutionResult
    reusable: bool


def _is_reason(reason: str) -> str:
    if not reason.isprintable():
        raise ValueError("not printable")
    return reason


class _Header(Ending):
    """The header of an answer."""

    wall_seconds: Seconds
    clean: StrictBool
    stdout: StrictInt = Field(ge=0)
    stderr: StrictInt = Field(ge=0)
    files: list[tuple[StrictStr, Annotated[StrictInt, Field(ge=0, le=MAX_FILE_BYTES)]]]
    missing: list[tuple[StrictStr, Annotated[StrictStr, Field(max_length=100), AfterValidator(_is_reason)]]]


class FrameReader:
    """Assembles one frame from the chunks of a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> bytes | None:
        """The payload once it is whole, else None. Raises BoxGone when it is too long or when something follows it."""
        self._buffer += chunk
        if len(self._buffer) < LENGTH.size:
            return None
        (num_bytes,) = LENGTH.unpack_from(self._buffer)
        if num_bytes > MAX_ANSWER_BYTES:
            raise BoxGone(f"a frame of {num_bytes} bytes; the longest honest one has {MAX_ANSWER_BYTES}")
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
    # surrogatepass: a program may be any str; one that cannot be encoded fails in the box.
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
    """Check the first frame of a runner. Raises BoxGone unless it says that the runner is ready."""
    header, _ = split_payload(payload)
    if header.get("ready") is not True:
        raise BoxGone(f"the runner is not ready: {', '.join(header)[:200]!r}")


def decode_answer(payload: bytes, *, outputs: tuple[str, ...], limits: Limits) -> Answer:
    """What the box reports about a job with these outputs and limits. Raises BoxGone for any violation of the protocol."""
    raw, body = split_payload(payload)
    try:
        header = _Header.model_validate(raw)
    except ValidationError as error:
        odd = error.errors(include_url=False, include_context=False)[0]
        raise BoxGone(
            f"{'.'.join(map(str, odd['loc']))} is {_format_value(odd['input'])}: {odd['msg'][:200]}"
        ) from error
    for name in ("stdout", "stderr"):
        if getattr(header, name) > limits.output_kib << 10:
            raise BoxGone(f"{name} is {getattr(header, name)}; at most {limits.output_kib << 10} bytes were allowed")
    names = [name for name, _ in header.files]
    for told in (names, [name for name, _ in header.missing]):
        if len(set(told)) < len(told) or not set(told) <= set(outputs):
            raise BoxGone("the answer names a file that was not asked for, or one twice")
    contents = cut_pieces(body, [header.stdout, header.stderr, *(num_bytes for _, num_bytes in header.files)])
    texts = [content.decode("utf-8", "replace") for content in contents]
    status, detail = status_of(header, cpu_limit_seconds=limits.cpu_seconds, stderr=texts[1])
    result = ExecutionResult(
        status=status,
        stdout=texts[0],
        stderr=texts[1],
        exit_code=header.exit_code,
        wall_seconds=header.wall_seconds,
        cpu_seconds=header.cpu_seconds,
        files=dict(zip(names, texts[2:], strict=True)),
        detail="; ".join(filter(None, [detail, *(f"{name}: {reason}" for name, reason in header.missing)])),
    )
    is_trusted = header.clean and header.num_stragglers == 0 and status in TRUSTED_AFTER
    return Answer(result=result, reusable=is_trusted)


def without_answer(
    status: Literal["sandbox_error", "memory"], detail: str, *, wall_seconds: float = 0.0
) -> ExecutionResult:
    """The result of a job that no box answered."""
    return ExecutionResult(
        status=status,
        stdout="",
        stderr="",
        exit_code=None,
        wall_seconds=wall_seconds,
        cpu_seconds=0.0,
        detail=detail,
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


def split_payload(payload: bytes) -> tuple[dict[str, Any], memoryview]:
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
        raise BoxGone(f"the runner failed: {_format_value(header['internal'])}")
    return header, memoryview(payload)[end:]


def _format_value(value: Any) -> str:
    """A value of an answer for a message: short, and never deep."""
    return repr(value)[:100] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def cut_pieces(body: memoryview, sizes: list[int]) -> list[bytes]:
    """The body in pieces of the sizes that the header names, which must be all of it."""
    if sum(sizes) != len(body):
        raise BoxGone(f"a body of {len(body)} bytes, of which the header names {sum(sizes)}")
    pieces, start = [], 0
    for size in sizes:
        pieces.append(bytes(body[start : start + size]))
        start += size
    return pieces
