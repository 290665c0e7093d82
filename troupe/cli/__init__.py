"""The command `troupe`.

Modules that need torch or Prefect are imported inside the commands that use them, so that `troupe --help` and everything
that only reads answers at once.
"""

import gc
import sys

import typer

from troupe.cli import beginning, evaluating, exporting, playing, reading, removing, sandbox, serving, training, version
from troupe.cli.border import run_command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for group in (version, beginning, training, reading, removing, evaluating, playing, exporting, sandbox, serving):
    group.add_commands(app)


def main() -> None:
    """Run a command. Exit code 2 with one clear line for wrong input, 1 for what failed, 130 when interrupted."""
    exit_code = run_command(lambda: app(prog_name="troupe", standalone_mode=False))
    gc.freeze()  # all memory goes with the process: a last look for garbage would only take most of a second
    sys.exit(exit_code)
