"""`troupe init`."""

from typing import Annotated

import typer


def add_commands(app: typer.Typer) -> None:
    """Register this file's commands."""
    app.command()(init)


def init(name: Annotated[str, typer.Argument(help="The folder, the module in it, its preset and its run.")]) -> None:
    """Write a project of your own: an environment, its preset, the test of its contract."""
    from pathlib import Path

    from troupe.projects.project import write_project

    folder = write_project(name, Path.cwd())
    typer.echo("\n".join(f"{name}/{path.name}" for path in sorted(folder.iterdir())))
    typer.echo(f"\nnext: cd {name} && make test && troupe up && troupe train {name}")
