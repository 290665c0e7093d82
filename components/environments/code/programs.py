"""From an agent's answer to a program for the sandbox, and from the sandbox's result to a verdict."""

import ast
import json
import re
import threading
import tokenize
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from io import StringIO

from components.environments.code.graders import match_printed, match_returned
from components.environments.code.problem import Case, CodeProblem, Grader, Kind
from components.environments.code.text import nests_deep, printable
from components.environments.shared.text import is_text
from components.errors import MalformedAction
from components.schema import Execution, ExecutionResult, Limits, ProblemLimits
from components.text.bounded_json import parse_bounded_json

FRAME = "@result "
"""Precedes the JSON of a function's return value, on the last line of the output. Any program may print it, but no box ever
holds the expected value."""
MAX_PROGRAM_CHARACTERS = 50_000
"""A longer program is malformed: Python's parser needs several hundred bytes per character."""
MAX_GOT_CHARACTERS = 10_000
"""Limit of a wrong output that is kept; agents are shown less of it."""
_FENCE = re.compile(r"```([^\n`]*)\n(.*?)(?:```|\Z)", re.DOTALL)
_PYTHON_FENCES = ("python", "py", "python3")
_DRIVER = """

import json as _json, sys as _sys
_owner = Solution() if {name!r} not in globals() and "Solution" in globals() else None
_value = (getattr(_owner, {name!r}) if _owner else globals()[{name!r}])(*_json.load(_sys.stdin))
_sys.stdout.write("\\n{frame}" + _json.dumps(_value) + "\\n")
"""
_HEADER = "import sys as _sys; _sys.set_int_max_str_digits(50000)"
"""What LiveCodeBench's authors set; those of the other datasets use a Python without a limit."""
_FUNCTION_HEADER = f"{_HEADER}; _sys.modules['solution'] = _sys.modules[__name__]; __name__ = 'solution'"
"""The authors' graders import a function, so that its program is not `__main__`."""
_warning_filters = threading.Lock()
"""Warning filters belong to the process, so one thread at a time sets them."""
MAX_OUTPUT_KIB = 4096
"""The longest output that a box sends back."""
_LONGEST_INTEGER = 4300
_LEAST_MEMORY_MIB = 96
"""Python and the modules of a box need about 60 MiB of address space."""
_INTERPRETER_MIB = 32
_TIMEOUTS = frozenset({"wall_timeout", "cpu_timeout"})
_ENDINGS = {
    "wall_timeout": "time limit",
    "cpu_timeout": "time limit",
    "memory": "memory limit",
    "output_limit": "output limit",
    "process_limit": "process limit",
}


def program_in(answer: str, *, max_characters: int) -> str:
    """The program in an answer: the last block fenced as Python, else the last fenced block, else the whole answer.

    Raises MalformedAction if the answer is longer than `max_characters`, or the program is empty, longer than
    `MAX_PROGRAM_CHARACTERS`, or not Python.
    """
    if len(answer) > max_characters:
        raise MalformedAction(f"{len(answer)} characters; at most {max_characters} are allowed")
    fenced = _FENCE.findall(answer)
    named = [body for language, body in fenced if language.strip().lower() in _PYTHON_FENCES]
    program = named[-1] if named else fenced[-1][1] if fenced else answer
    if not program.strip():
        raise MalformedAction("there is no program in the answer")
    if len(program) > MAX_PROGRAM_CHARACTERS:
        raise MalformedAction(f"a program of {len(program)} characters; at most {MAX_PROGRAM_CHARACTERS} are allowed")
    if fault := syntax_fault(program):
        raise MalformedAction(fault)
    return program.rstrip() + "\n"


@lru_cache(maxsize=512)
def syntax_fault(program: str) -> str | None:
    """The syntax error in `program`, None for valid Python. It is parsed and never run.

    The allowed nesting depends on the depth of the stack, so the parser runs on a fresh stack: equal texts have equal results
    for every caller.
    """
    if not is_text(program):
        return "the answer holds half a character"
    with ThreadPoolExecutor(max_workers=1) as fresh_stack:
        return fresh_stack.submit(_parse_fault, program).result()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Ignore the parser's warnings about agents' text, such as `"\\d"`."""
    with _warning_filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _parse_fault(program: str) -> str | None:
    try:
        with without_warnings():
            ast.parse(program)
    except SyntaxError as error:
        return printable(f"syntax error: {error.msg} (line {error.lineno})")
    except (ValueError, MemoryError, RecursionError) as error:
        return printable(f"no Python: {type(error).__name__} {error}".rstrip())
    return None


def execution(problem: CodeProblem, program: str, case: Case, *, limits: Limits | None = None) -> Execution:
    """The run of `program` on `case`, set up as its authors' grader does. A driver appended to it calls a function with the
    arguments from standard input; the text does not depend on the case, and the run does not contain the expected output.
    `limits` None: those of the test."""
    is_function = problem.kind == "function"
    text = _with_header(f"{problem.preamble}{program}", _FUNCTION_HEADER if is_function else _HEADER)
    if is_function:
        text += _DRIVER.format(name=problem.entry, frame=FRAME)
    return Execution(program=text, stdin=case.given, limits=limits or limits_of(problem, case))


@lru_cache(maxsize=512)
def _with_header(program: str, header: str) -> str:
    """`program` with a line inserted after its docstring and imports from `__future__`, which Python wants first."""
    lines, place, statement = program.split("\n"), 0, list[str]()
    for token in tokenize.generate_tokens(StringIO(program).readline):
        if token.type == tokenize.NEWLINE:
            is_first = statement[:2] == ["from", "__future__"] or (len(statement) == 1 and statement[0][-1] in "'\"")
            if not is_first:
                break
            place, statement = token.end[0], []
        elif token.type not in (tokenize.COMMENT, tokenize.NL):
            statement.append(token.string)
    return "\n".join((*lines[:place], header, *lines[place:]))


def limits_of(problem: CodeProblem, case: Case) -> ProblemLimits | None:
    """What the dataset says of the limits of one test; None for those of the run.

    Its memory has the 32 MiB for the interpreter that CodeContests' authors add. Output may be twice as long as expected.
    """
    output_kib = min(MAX_OUTPUT_KIB, len(case.expected.encode("utf-8", "replace")) // 512)
    memory_mib = problem.memory_mib
    limits = ProblemLimits(
        cpu_seconds=problem.cpu_seconds,
        memory_mib=None if memory_mib is None else max(_LEAST_MEMORY_MIB, memory_mib + _INTERPRETER_MIB),
        output_kib=output_kib or None,
    )
    return None if limits == ProblemLimits() else limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a program passed a case, and if not, its output or error on one line."""

    passed: bool
    got: str


def output_of(result: ExecutionResult, kind: Kind) -> str | None:
    """What a program printed, or the JSON that its function returned; None unless it ended well."""
    if result.status != "ok":
        return None
    return result.stdout if kind == "stdin" else frame_value(result.stdout)


def has_timed_out(result: ExecutionResult) -> bool:
    """Whether the run was ended for its CPU or wall time."""
    return result.status in _TIMEOUTS


def verdict(
    result: ExecutionResult, case: Case, kind: Kind, grader: Grader = "usual", *, accepted: bool | None = None
) -> Verdict:
    """The verdict of a run: passed only if the program ended well with an output that `grader` accepts for the expected one,
    or, where `accepted` is given, with one that a checker accepted."""
    if result.status != "ok":
        return Verdict(passed=False, got=_ENDINGS.get(result.status) or _last_line(result.stderr) or "an error")
    output = output_of(result, kind)
    if output is None:
        return Verdict(passed=False, got="no result")
    if agrees(output, case.expected, kind, grader) if accepted is None else accepted:
        return Verdict(passed=True, got="")
    shown = output[:MAX_GOT_CHARACTERS]
    return Verdict(passed=False, got=(escape_line(shown) or "nothing") if kind == "stdin" else printable(shown))


def agrees(given: str, expected: str, kind: Kind, grader: Grader = "usual") -> bool:
    """Whether printed text, or the JSON of a returned value, is what `grader` accepts for `expected`."""
    if kind == "stdin":
        return match_printed(grader, given, expected)
    return match_returned(grader, *(json.loads(value, parse_int=_read_integer) for value in (given, expected)))


def frame_value(stdout: str) -> str | None:
    """The JSON that the driver printed; None if the last line is not a frame."""
    last = stdout.rstrip("\n").rpartition("\n")[2]
    if not last.startswith(FRAME) or nests_deep(last):
        return None
    content = last[len(FRAME) :]
    try:
        return json.dumps(parse_bounded_json(content, parse_int=_read_integer))
    except TypeError:  # a long integer, which Python does not write
        return content.strip()
    except ValueError:
        return None


def _read_integer(digits: str) -> int | Decimal:
    """An integer; Python reads one of more than 4,300 digits only as a decimal, exactly."""
    return int(digits) if len(digits) <= _LONGEST_INTEGER else Decimal(digits)


def escape_line(text: str) -> str:
    """`text` on one line, with `\\n` and `\\\\` as escapes and without trailing white space."""
    return printable(text.rstrip().replace("\\", "\\\\").replace("\n", "\\n"))


def _last_line(stderr: str) -> str:
    return printable(stderr.rstrip().rpartition("\n")[2][:MAX_GOT_CHARACTERS])
