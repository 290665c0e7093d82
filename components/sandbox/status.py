"""The status of a program, from the facts about its end."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from components.frozen import Frozen
from components.schema import ExecutionStatus

Seconds = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]

REFUSED_PROCESS = ("BlockingIOError: [Errno 11]", "RuntimeError: can't start new thread")
"""How the traceback of a program ends to which the kernel refused a process or a thread."""
REFUSED_MEMORY = ("MemoryError", "OSError: [Errno 12]")


class Ending(Frozen):
    """What the runner reports about the end of a program."""

    cut: Literal["", "output", "cpu", "wall"]
    """The limit for which the runner killed it; empty when it ended by itself."""
    exit_code: StrictInt = Field(ge=-128, le=255)
    """Negative for a signal."""
    cpu_seconds: Seconds
    """Of the whole box, from the start of the program until all its processes were gone."""
    num_stragglers: StrictInt = Field(ge=0, le=1 << 20)
    """Processes that lived on when the first one had ended."""
    refused: StrictBool
    """The box refused a process or a thread, or was found full of them."""
    out_of_memory: StrictBool
    """The kernel killed a process of the box for its memory."""


def status_of(end: Ending, *, cpu_limit_seconds: float, stderr: str) -> tuple[ExecutionStatus, str]:
    """The status of a program, and what ended it in one line.

    A refusal counts only when the program failed: one that makes do with less and ends with 0 is ok. The first of these that
    is true of a failed program is its status:

    1. `output_limit`: it wrote more than it may;
    2. `process_limit`: the box refused it a process or thread, or its traceback ends with that;
    3. `memory`: the kernel killed one of its processes for memory, or its traceback ends with a MemoryError;
    4. `cpu_timeout`: all its processes together used more CPU time than it may. So does a program that ended with 0;
    5. `wall_timeout`: it ran longer than it may;
    6. `nonzero_exit`: all else.
    """
    if end.cut == "output":
        return "output_limit", "it wrote more than its output limit"
    if end.cut or end.exit_code != 0:
        last_line = stderr.rstrip().rpartition("\n")[2]
        if end.refused or last_line.startswith(REFUSED_PROCESS):
            return "process_limit", f"it was refused a process or a thread; {end.num_stragglers} processes were left"
        if end.out_of_memory or last_line.startswith(REFUSED_MEMORY):
            return "memory", "it ran out of memory"
    if end.cut == "cpu" or end.cpu_seconds > cpu_limit_seconds:
        return "cpu_timeout", f"it used {end.cpu_seconds:.2f} s of CPU time, and may use {cpu_limit_seconds:g} s"
    if end.cut == "wall":
        return "wall_timeout", "it ran longer than its wall limit"
    if end.exit_code < 0:
        return "nonzero_exit", f"it ended by signal {-end.exit_code}"
    return ("nonzero_exit", f"it ended with exit code {end.exit_code}") if end.exit_code else ("ok", "")
