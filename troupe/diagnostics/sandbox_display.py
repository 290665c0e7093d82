"""Terminal output of `troupe sandbox`: attacks as they end, and the result of one program."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from components.sandbox.attacks.agents import AgentAttack
from components.sandbox.attacks.base import Attack
from components.sandbox.attacks.runner import AttackReport
from components.sandbox.base import SandboxDescription
from components.schema import ExecutionResult
from components.text.escaping import printable
from troupe.consoles import show_wait

NAME_WIDTH, TRIED_WIDTH, NEXT_WIDTH = 27, 46, 9
LEAST_WIDTH = 120
"""The width of output to a file, at least. On a narrower terminal rows are wrapped."""
LONGEST_REASON = 240


class AttackDisplay:
    """A row for each attack as it ends; the running one below on a terminal, as a line elsewhere if it takes long."""

    def __init__(self, *, on_stderr: bool) -> None:
        self._console = Console(stderr=on_stderr)
        if not self._console.is_terminal:
            self._console.width = max(self._console.width, LEAST_WIDTH)
        self._show_attack: Callable[[str], None] | None = None
        self._started = False

    @contextmanager
    def show(self) -> Iterator["AttackDisplay"]:
        """Draw during the block."""
        with show_wait("opening the sandbox", self._console) as self._show_attack:
            yield self

    def start(self, attack: Attack | AgentAttack, description: SandboxDescription) -> None:
        """Show that an attack begins."""
        if not self._started:
            self._started = True
            limits = ", ".join(f"{name} {value}" for name, value in description.box_limits.items())
            self._console.print(
                f"{description.backend}, image {description.image_digest[:12]}, {limits}\n", highlight=False
            )
            self._row(*(Text(title, style="bold") for title in ("attack", "tried", "stopped by", "next job")))
        if self._show_attack is not None:
            self._show_attack(f"{attack.name}: {attack.tries}")

    def report(self, report: AttackReport) -> None:
        """Show how an attack ended."""
        by = Text(report.stopped_by[:LONGEST_REASON])
        if not report.stopped:
            by = Text.assemble(("NOT STOPPED  ", "bold red"), report.stopped_by)
        answer = Text("right", style="green") if report.next_job_ok else Text(report.next_job, style="bold red")
        self._row(Text(report.name, style="" if report.held else "bold red"), Text(report.tries), by, answer)

    def _row(self, *cells: Text) -> None:
        table = Table.grid(padding=(0, 1))
        for width in (NAME_WIDTH, TRIED_WIDTH, None, NEXT_WIDTH):
            table.add_column(width=width, ratio=None if width else 1)
        table.expand = True
        table.add_row(*cells)
        self._console.print(table)


def result_document(result: ExecutionResult) -> dict[str, Any]:
    """A result for `troupe sandbox run --json`."""
    keys = ("status", "stdout", "stderr", "exit_code", "wall_seconds", "cpu_seconds")
    return {key: getattr(result, key) for key in keys}


def print_result(result: ExecutionResult, description: SandboxDescription) -> None:
    """Print the program's output to the same streams, then how it ended to standard error."""
    for text, stream in ((result.stdout, sys.stdout), (result.stderr, sys.stderr)):
        stream.write(printable(text) if stream.isatty() else text)
        stream.flush()
    detail = f": {result.detail}" if result.detail else ""
    code = "" if result.exit_code is None else f", exit code {result.exit_code}"
    times = f"{result.wall_seconds:.3f} s, {result.cpu_seconds:.3f} s of CPU time"
    print(f"{result.status}{code}{detail} ({times}, {description.backend})", file=sys.stderr)
