"""LiveCodeBench, code generation lite: public tests as JSON, private ones packed, programs and functions."""

import base64
import io
import json
import pickle
import zlib
from typing import Any, NoReturn

from components.environments.code.grammar import function_case, stdin_case
from components.environments.code.layouts.layout import LEETCODE_PREAMBLE, Draft, Layout, Row, Unusable, assembled
from components.environments.code.options import CodeOptions
from components.environments.code.problem import Case, CodeProblem
from components.environments.dataset_rows import DatasetSource

_MAX_UNPACKED_BYTES = 1 << 28
_NUM_HIDDEN = 12
_UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
    OverflowError,
    MemoryError,
    RecursionError,
    zlib.error,
    pickle.UnpicklingError,
)
"""What damaged bytes make of base64, zlib, pickle and JSON."""


class _StringsOnly(pickle.Unpickler):
    """Makes what pickle makes without a name: numbers, texts, lists. Nothing is imported, so nothing can be run."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"the tests name {module_name}.{global_name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("the tests refer to something outside")


def unpacked_tests(text: str) -> list[dict[str, Any]]:
    """The tests of one column: JSON, or the base64 of the zlib of the pickle of JSON. Raises Unusable for anything else."""
    try:
        return _checked(json.loads(text))
    except ValueError:
        pass
    try:
        unpacker = zlib.decompressobj()
        packed = unpacker.decompress(base64.b64decode(text, validate=True), _MAX_UNPACKED_BYTES)
        if unpacker.unconsumed_tail:
            raise Unusable(f"tests of more than {_MAX_UNPACKED_BYTES} bytes")
        return _checked(json.loads(_StringsOnly(io.BytesIO(packed)).load()))
    except _UNREADABLE as error:
        raise Unusable(f"unreadable tests: {type(error).__name__}: {error}") from error


def _checked(tests: Any) -> list[dict[str, Any]]:
    fields = ("input", "output", "testtype")
    if not isinstance(tests, list) or not all(
        isinstance(test, dict) and all(f in test for f in fields) for test in tests
    ):
        raise Unusable(f"tests without {', '.join(fields)}")
    return tests


def _statement(row: Row) -> str:
    return str(row["question_content"])


def _problem(row: Row, options: CodeOptions) -> CodeProblem:
    shown, deciding = (unpacked_tests(row[name]) for name in ("public_test_cases", "private_test_cases"))
    is_function = any(test["testtype"] == "functional" for test in (*shown, *deciding))
    entry = json.loads(row["metadata"]).get("func_name", "") if is_function else ""
    if is_function and not entry:
        raise Unusable("a function without a name")
    draft = Draft(
        kind="function" if entry else "stdin",
        statement=_statement(row),
        shown=[_case(test) for test in shown],
        deciding=[_case(test) for test in deciding],
        entry=entry,
        preamble=LEETCODE_PREAMBLE if entry else "",
        notes=[f"Write the function {entry}.", row["starter_code"]] if entry else (),
    )
    return assembled(draft, options, default_num_hidden=_NUM_HIDDEN)


def _case(test: dict[str, Any]) -> Case:
    """A functional test has one JSON value a line as its arguments."""
    if test["testtype"] != "functional":
        return stdin_case(test["input"], test["output"])
    try:
        arguments = [json.loads(line) for line in test["input"].splitlines() if line.strip()]
        return function_case(arguments, json.loads(test["output"]))
    except ValueError as error:
        raise Unusable(f"a test that is no JSON: {error}") from error


LIVECODEBENCH = Layout(
    places={"test": DatasetSource(path="lighteval/code_generation_lite", name="release_v6", split="test")},
    statement=_statement,
    problem=_problem,
)
