"""The command `troupe`.

Modules that need torch or Prefect are imported inside the commands that use them, so that `troupe --help` and everything
that only reads answers at once.
"""

import sys

import typer

from components.errors import ConfigurationError, TroupeError
from flows.cli import evaluating, playing, reading, removing, sandbox, serving, training

app = typer.Typer(
    help="Train teams of language-model agents with reinforcement learning, as Prefect flows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for group in (training, reading, removing, evaluating, playing, sandbox, serving):
    group.add_commands(app)


def main() -> None:
    """Run a command. Exit code 2 with one clear line for wrong input, 1 for what failed, 130 when interrupted."""
    try:
        app()
    except ConfigurationError as error:
        sys.exit(complain(error, code=2))
    except TroupeError as error:
        sys.exit(complain(error, code=1))
    except KeyboardInterrupt:
        print("interrupted; nothing that was finished is lost, the same command goes on from here", file=sys.stderr)
        sys.exit(130)


def complain(error: Exception, *, code: int) -> int:
    """Print what is wrong on standard error; the exit code."""
    print(f"troupe: {error}", file=sys.stderr)
    return code
