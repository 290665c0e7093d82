"""The command `troupe`. Commands import modules that need torch or Prefect when they run, so `--help` responds at once."""

import sys
from gc import freeze
from typing import Annotated

import typer

from troupe.cli.errors import run_command
from troupe.cli.exporting import export
from troupe.cli.play import compare, evaluate, play
from troupe.cli.runs import rm, runs, show, verify
from troupe.cli.sandbox import commands as sandbox_commands
from troupe.cli.services import doctor, down, env, gc, status, up
from troupe.cli.serving import questions, serve
from troupe.cli.training import init, presets, resume, train
from troupe.cli.trying import try_policies
from troupe.cli.viewing import rollouts, view

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for command in (
    presets,
    init,
    train,
    resume,
    runs,
    show,
    verify,
    view,
    rollouts,
    rm,
    evaluate,
    compare,
    play,
    export,
    serve,
    questions,
    up,
    down,
    status,
    env,
    doctor,
    gc,
):
    app.command()(command)
app.command("try")(try_policies)
app.add_typer(sandbox_commands, name="sandbox")


def _print_version(wanted: bool) -> None:
    if wanted:
        from components.runs.provenance import version_line

        typer.echo(version_line())
        raise typer.Exit


@app.callback()
def troupe(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Version, commit and Python.")
    ] = False,
) -> None:
    """Train teams of language-model agents with reinforcement learning, as Prefect flows."""


def main() -> None:
    """Run a command. Exit code 2 with one clear line for wrong input, 1 for what failed, 130 when interrupted."""
    exit_code = run_command(lambda: app(prog_name="troupe", standalone_mode=False))
    freeze()  # a last garbage collection would take most of a second, and all memory is freed with the process
    sys.exit(exit_code)
