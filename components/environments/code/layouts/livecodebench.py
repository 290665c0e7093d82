"""LiveCodeBench, code generation lite: public tests as JSON, private ones packed, programs and functions."""

import base64
import pickletools
import zlib
from typing import Any

from components.environments.code.grammar import function_case, stdin_case
from components.environments.code.layouts.layout import Grading, Layout, Row, Unusable, assemble_problem
from components.environments.code.options import CodeOptions
from components.environments.code.packed import MAX_TESTS_BYTES
from components.environments.code.problem import Case, CodeProblem
from components.environments.shared.dataset_rows import DatasetSource
from components.text.bounded_json import parse_bounded_json

_MAX_UNPACKED_BYTES = MAX_TESTS_BYTES
_PICKLE = b"\x80"
"""The first byte of every pickle of protocol 2 and above, and of no JSON."""
_TEXT_OPCODES = frozenset({"PROTO", "FRAME", "SHORT_BINUNICODE", "BINUNICODE", "MEMOIZE", "BINPUT", "STOP"})
"""The opcodes in the pickle of one text."""


_STARRED = (
    *(
        "string",
        "re",
        "datetime",
        "collections",
        "heapq",
        "bisect",
        "copy",
        "math",
        "random",
        "statistics",
        "itertools",
    ),
    *("functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
"""Builtins are near the end, so that the names of operator and io do not hide them."""
_PREAMBLE = "".join(
    [
        *(f"from {module} import *\n" for module in _STARRED),
        f"import {', '.join(_STARRED[: _STARRED.index('builtins')])}\n",
        "sys.setrecursionlimit(50000)\n\n",
    ]
)
"""What the authors put before every program."""
_GRADING = Grading(grader="livecodebench", cpu_seconds=6.0)
"""The authors' `testing_util.py`: public and private tests, 6 s for each, no limit of memory."""


def unpack_tests(text: str) -> list[dict[str, Any]]:
    """The tests of one column: JSON, or the base64 of the zlib of JSON, which may be pickled as one text.

    Raises Unusable for anything else, and for tests of more than 64 MiB. Pickles are never run.
    """
    try:
        return _check_tests(parse_bounded_json(text, max_length=_MAX_UNPACKED_BYTES))
    except ValueError:
        pass
    try:
        unpacker = zlib.decompressobj()
        packed = unpacker.decompress(base64.b64decode(text, validate=True), _MAX_UNPACKED_BYTES)
        if unpacker.unconsumed_tail:
            raise Unusable(f"tests of more than {_MAX_UNPACKED_BYTES} bytes")
        return _check_tests(parse_bounded_json(_read_pickled_text(packed) if packed.startswith(_PICKLE) else packed))
    except (ValueError, zlib.error) as error:
        raise Unusable(
            f"unreadable tests: {error}; they must be JSON, or the base64 of the zlib of JSON or of one pickled text of JSON"
        ) from error


def _read_pickled_text(content: bytes) -> str:
    """The text that was pickled, read without running the pickle. Raises ValueError for any other content."""
    texts = []
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name not in _TEXT_OPCODES:
            raise ValueError(f"a pickle of more than a text ({opcode.name})")
        if "UNICODE" in opcode.name:
            texts.append(argument)
    if len(texts) != 1:
        raise ValueError(f"a pickle of {len(texts)} texts")
    return str(texts[0])


def _check_tests(tests: Any) -> list[dict[str, Any]]:
    fields = ("input", "output", "testtype")
    if not isinstance(tests, list) or not all(
        isinstance(test, dict) and all(f in test for f in fields) for test in tests
    ):
        raise Unusable(f"tests without {', '.join(fields)}")
    return tests


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    shown, deciding = (unpack_tests(row[name]) for name in ("public_test_cases", "private_test_cases"))
    is_function = any(test["testtype"] == "functional" for test in (*shown, *deciding))
    entry = parse_bounded_json(row["metadata"]).get("func_name", "") if is_function else ""
    if is_function and not entry:
        raise Unusable("a function without a name")
    return assemble_problem(
        options,
        statement=str(row["question_content"]),
        shown=[_case(test) for test in shown],
        deciding=[_case(test) for test in deciding],
        grading=_GRADING,
        entry=entry,
        preamble=_PREAMBLE,
        notes=[f"Write the function {entry}.", row["starter_code"]] if entry else (),
    )


def _case(test: dict[str, Any]) -> Case:
    """A functional test has one JSON value per line as its arguments."""
    if test["testtype"] != "functional":
        return stdin_case(test["input"], test["output"])
    try:
        arguments = [parse_bounded_json(line) for line in test["input"].splitlines() if line.strip()]
        return function_case(arguments, parse_bounded_json(test["output"]))
    except ValueError as error:
        raise Unusable(f"a test that is no JSON: {error}") from error


LIVECODEBENCH = Layout(
    places={"test": DatasetSource(path="lighteval/code_generation_lite", name="release_v6", split="test")},
    statement="question_content",
    date="contest_date",
    problem=_problem,
)
