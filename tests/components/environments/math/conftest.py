"""What the math tests share: tools that run programs in plain subprocesses, without any protection."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from components.environments.base import ToolCall
from components.errors import ExecutionFailed
from components.schema import Execution, ExecutionResult, Passage, Query


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


@pytest.fixture
def tools() -> SubprocessTools:
    return SubprocessTools()
