"""A sandbox whose answers are a function of the program, for tests of what stands on a sandbox."""

import threading
from collections.abc import Callable, Mapping

from components.errors import SandboxUnavailable
from components.sandbox.base import SandboxDescription
from components.schema import ExecutionResult, Limits

Respond = Callable[[str, str], ExecutionResult]
"""From (program, stdin) to its result. May sleep, and may raise SandboxUnavailable."""


class ScriptedSandbox:
    """A `Sandbox` that runs nothing. `asked` counts how often each (program, stdin) was asked."""

    def __init__(self, respond: Respond, *, image_digest: str = "scripted", num_boxes: int = 4) -> None:
        self._respond = respond
        self._lock = threading.Lock()
        self._closed = False
        self.asked: dict[tuple[str, str], int] = {}
        self.description = SandboxDescription(
            backend="bubblewrap", image_digest=image_digest, num_boxes=num_boxes, box_limits={}
        )

    def run(
        self,
        program: str,
        *,
        stdin: str = "",
        files: Mapping[str, str] | None = None,
        outputs: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> ExecutionResult:
        with self._lock:
            if self._closed:
                raise SandboxUnavailable("the scripted sandbox is closed")
            self.asked[program, stdin] = self.asked.get((program, stdin), 0) + 1
        return self._respond(program, stdin)

    def close(self) -> None:
        self._closed = True


def make_printed(stdout: str) -> ExecutionResult:
    """The result of a program that printed `stdout` and ended well."""
    return ExecutionResult(status="ok", stdout=stdout, stderr="", exit_code=0, wall_seconds=0.01, cpu_seconds=0.01)


def sandbox_failed(detail: str) -> ExecutionResult:
    """What a sandbox says when it failed itself."""
    return ExecutionResult(
        status="sandbox_error", stdout="", stderr="", exit_code=None, wall_seconds=0.0, cpu_seconds=0.0, detail=detail
    )
