"""The sandbox border: a program in, how it ended out."""

from collections.abc import Mapping
from typing import Literal, Protocol

from components.artifacts.refs import Frozen
from components.schema import ExecutionResult, Limits

Backend = Literal["docker", "bubblewrap"]


class SandboxDescription(Frozen):
    """What stands between a program and this machine, for people and for keys."""

    backend: Backend
    image_digest: str
    """Of the file system that programs see, the runner included: results under another digest are other results."""
    num_boxes: int
    """Programs that may run at once."""
    box_limits: Mapping[str, str]
    """The limits of a whole box, in words, as `{"memory": "256 MiB", "processes": "64", ...}`."""


class Sandbox(Protocol):
    """A pool of warm boxes. All methods may be called from many threads at once.

    A box is one container or namespace; it runs one program at a time and is thrown away on any doubt.
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
        """How `program` (Python source) ended; `limits` None means `Limits()`.

        What the program does is never an exception. `sandbox_error` means that the sandbox failed at it twice, in two boxes,
        or did not answer for 10 s after the program's wall limit.
        Raises SandboxUnavailable when no box can be had.
        """
        ...

    def close(self) -> None:
        """End every box. A closed sandbox runs nothing more; closing twice is no error."""
        ...
