"""`troupe --version`."""

from typing import Annotated

import typer


def add_commands(app: typer.Typer) -> None:
    """Register the options of `troupe` itself."""
    app.callback()(troupe)


def _shown(wanted: bool) -> None:
    if wanted:
        from tasks.provenance import version_line

        typer.echo(version_line())
        raise typer.Exit


def troupe(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_shown, help="Version, commit and Python.")
    ] = False,
) -> None:
    """Train teams of language-model agents with reinforcement learning, as Prefect flows."""
