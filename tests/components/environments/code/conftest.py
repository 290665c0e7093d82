"""Two worlds to run programs in: a real sandbox, and this process for the programs that the tests themselves wrote."""

import contextlib
import gc
import io
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from components.environments.base import ToolCall, Tools
from components.environments.code.problem import Bounds, Case, CodeProblem
from components.environments.play import Playthrough
from components.environments.registry import family
from components.errors import ExecutionFailed
from components.sandbox.backends import open_sandbox
from components.schema import Execution, ExecutionResult, Limits, Passage, Problem, Query
from components.tool_calls.ledger import ExecutionLedger, ToolSources


@pytest.fixture(scope="session")
def sandbox_tools() -> Iterator[Tools]:
    """A ledger over a real sandbox of two boxes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # boxes run as another user
        sandbox = open_sandbox("bubblewrap", state_folder=Path(folder), num_boxes=2)
        try:
            yield ExecutionLedger(ToolSources(sandbox=lambda: sandbox, retriever=lambda: None, limits=Limits()))
        finally:
            sandbox.close()


class HostTools:
    """Runs programs in this process, for programs that a test wrote. `ran` counts them by (program, stdin)."""

    def __init__(self) -> None:
        self.ran: Counter[tuple[str, str]] = Counter()
        self.failing_program: str | None = None

    def run(self, execution: Execution) -> ExecutionResult:
        if self.failing_program is not None and self.failing_program in execution.program:
            raise ExecutionFailed("no box")
        self.ran[execution.program, execution.stdin] += 1
        status, stdout, stderr, stdin = "ok", io.StringIO(), "", sys.stdin
        num_digits = sys.get_int_max_str_digits()
        sys.stdin = io.StringIO(execution.stdin)
        # In CPU time: in wall time a busy machine would end references too.
        # And without the garbage of other tests: looking through it takes as long, and swallows what its callbacks raise.
        gc.disable()
        before = signal.signal(signal.SIGPROF, _end)
        signal.setitimer(signal.ITIMER_PROF, 0.2)
        try:
            with contextlib.redirect_stdout(stdout):
                exec(compile(execution.program, "program.py", "exec"), {"__name__": "__main__"})
        except SystemExit:
            pass
        except BaseException:
            status, stderr = "nonzero_exit", traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
            gc.enable()
            sys.stdin = stdin
            sys.set_int_max_str_digits(num_digits)
            sys.modules.pop("solution", None)
        return ExecutionResult(
            status=status, stdout=stdout.getvalue(), stderr=stderr, exit_code=0, wall_seconds=0.0, cpu_seconds=0.0
        )

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        raise AssertionError(query)

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        raise AssertionError(calls)


def _end(*_: object) -> None:
    raise KeyboardInterrupt("a mutant that never ends")


@pytest.fixture
def host_tools() -> HostTools:
    return HostTools()


def playthrough(problem: CodeProblem, tools: Tools) -> Playthrough:
    """`problem` at its start, as it is built from a problem's payload."""
    payload = problem.model_dump(mode="json")
    return family("code").build(Problem(problem_id="code-of-a-test", environment="code", payload=payload), tools)


BOUNDS = Bounds(max_cases=3, max_mutants=4, max_answer_characters=400, max_case_characters=60)


@pytest.fixture
def doubling() -> Callable[..., CodeProblem]:
    """A problem: print twice what is read. Keyword arguments replace parts of it."""

    def make(**parts: Any) -> CodeProblem:
        given = {
            "kind": "stdin",
            "statement": "Read n. Print 2*n.",
            "entry": "",
            "preamble": "",
            "reference": "n = int(input())\nprint(n * 2)\n",
            "visible": (Case(given="3\n", expected="6"), Case(given="5\n", expected="10")),
            "hidden": tuple(Case(given=f"{n}\n", expected=str(2 * n)) for n in (7000, 8100, 9200, -6300)),
            "spare": (Case(given="11\n", expected="22"),),
            "bounds": BOUNDS,
        }
        return CodeProblem(**{**given, **parts})

    return make
