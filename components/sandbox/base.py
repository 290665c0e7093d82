"""The interface of the sandbox: runs a program and returns how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from components.frozen import Frozen
from components.schema import ExecutionResult, Limits, ProgramEnd

Backend = Literal["docker", "bubblewrap"]


class SandboxDescription(Frozen):
    """The backend and limits of a sandbox, for people and for keys."""

    backend: Backend
    image_digest: str
    """Of the file system that programs see, including the runner. Results belong to one digest."""
    num_boxes: int
    """The number of programs that can run at once."""
    box_limits: Mapping[str, str]
    """The limits of a whole box in words: `{"memory": "256 MiB", "processes": "64", ...}`."""


class Sandbox(Protocol):
    """A pool of warm boxes, for many threads.

    A box is one container or namespace; it runs one program at a time and is replaced on any doubt.
    """

    @property
    def description(self) -> SandboxDescription: ...

    def run(
        self,
        program: str,
        *,
        stdin: str = "",
        files: Mapping[str, str] | None = None,
        outputs: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> ExecutionResult:
        """The result of `program` (Python source); `limits` None means `Limits()`.

        No behavior of the program raises. `sandbox_error` means that the sandbox failed twice, in two boxes, or did not answer
        for 10 s after the program's wall limit. Raises SandboxUnavailable when no box can be made.
        """
        ...

    def close(self) -> None:
        """Close every box. May be called twice; `run` then raises SandboxUnavailable."""
        ...


MODULES = "/run/modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentJob:
    """An agent to run in a box: its command, what it finds in its folder, and what it may use.

    `reads` are files and folders of this machine that it sees beside the system and this process's interpreter, `modules` those
    that it finds below `MODULES`, wherever they are here.
    `memory_mib` counts the files that it writes, of which there are at most `disk_mib`.
    """

    command: tuple[str, ...]
    variables: Mapping[str, str]
    files: Mapping[str, str]
    outputs: tuple[str, ...]
    seconds: float
    reads: tuple[str, ...]
    modules: tuple[str, ...] = ()
    memory_mib: int
    disk_mib: int
    num_processes: int
    num_cpus: float


class AgentBoxes(Protocol):
    """Boxes for agents: each has a network of its own, which leads to the policies alone."""

    url: str
    """Where an agent finds them."""

    def check(self) -> None:
        """Start a box. Raises ServiceMissing with the remedy, or SandboxUnavailable, where none can be had."""
        ...

    def run(self, job: AgentJob, socket: Path) -> ProgramEnd:
        """The end of an agent whose endpoint is the Unix socket `socket`. Raises ConfigurationError for one that cannot be
        started, ServiceMissing or SandboxUnavailable when there is no box."""
        ...
