"""What the math tests share: tools that run programs in plain subprocesses, without any protection."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from components.environments.base import ToolCall, Tools
from components.environments.play import Playthrough
from components.environments.registry import family
from components.errors import ExecutionFailed
from components.schema import Execution, ExecutionResult, Passage, Problem, Query


class SubprocessTools:
    """`Tools` for harmless programs. `asked` lists the executions in order; the sandbox fails at what `failing` holds."""

    def __init__(self) -> None:
        self.asked: list[Execution] = []
        self.failing: set[str] = set()

    def run(self, execution: Execution) -> ExecutionResult:
        self.asked.append(execution)
        if execution.program in self.failing:
            raise ExecutionFailed("the box broke")
        ended = subprocess.run([sys.executable, "-I", "-S", "-c", execution.program], capture_output=True, text=True)
        return ExecutionResult(
            status="ok" if ended.returncode == 0 else "nonzero_exit",
            stdout=ended.stdout,
            stderr=ended.stderr,
            exit_code=ended.returncode,
            wall_seconds=0.0,
            cpu_seconds=0.0,
        )

    def retrieve(self, query: Query) -> tuple[Passage, ...]:
        raise AssertionError("math retrieves nothing")

    def prepare(self, calls: Sequence[ToolCall]) -> None:
        pass


def playthrough(payload: Mapping[str, Any], tools: Tools) -> Playthrough:
    """The problem with this payload at its start."""
    return family("math").build(Problem(problem_id="math-of-a-test", environment="math", payload=payload), tools)


@pytest.fixture
def tools() -> SubprocessTools:
    return SubprocessTools()
