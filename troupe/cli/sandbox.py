"""`troupe sandbox build | run | attack | status`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from troupe.cli.runs import JsonOption, emit, emit_json

BackendOption = Annotated[str, typer.Option(help="auto (docker, else bubblewrap), docker or bubblewrap.")]


commands = typer.Typer(help="Build, try, attack and inspect the sandbox.", no_args_is_help=True, rich_markup_mode=None)


@commands.command()
def build(as_json: JsonOption = False) -> None:
    """Build the sandbox's file system and image, and start a private Docker daemon if there is none."""
    from troupe.consoles import show_wait
    from troupe.diagnostics.sandbox import build as build_all
    from troupe.diagnostics.tables import sandbox_build_table

    with show_wait("looking") as show:
        document = build_all(lambda step: show(f"building {step}"))
    emit(document, as_json=as_json, table=sandbox_build_table)
    if not as_json:
        typer.echo("\nnext: troupe sandbox attack, or troupe sandbox run FILE")


@commands.command()
def run(
    file: Annotated[str, typer.Argument(help="A Python program; - reads it from standard input.")],
    backend: BackendOption = "auto",
    timeout: Annotated[float | None, typer.Option(min=0.01, max=3600, help="Seconds of wall and of CPU time.")] = None,
    stdin: Annotated[Path | None, typer.Option(help="A file that the program reads as its standard input.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run one program in the sandbox. Exit code 0 if it succeeded, else 1."""
    from troupe.diagnostics.sandbox import run_file
    from troupe.diagnostics.sandbox_display import print_result, result_document

    result, description = run_file(file, backend=backend, timeout_seconds=timeout, stdin_file=stdin)
    if as_json:
        emit_json(result_document(result))
    else:
        print_result(result, description)
    if result.status != "ok":
        raise typer.Exit(1)


@commands.command()
def attack(
    backend: BackendOption = "auto",
    profile: Annotated[str, typer.Option(help="program: the boxes of programs; agent: those of agents.")] = "program",
    only: Annotated[str | None, typer.Option(help="One attack, or all of one theme.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Try every known attack on the sandbox. Exit code 1 if any succeeds."""
    from troupe.diagnostics.sandbox import attack_document, attack_profile
    from troupe.diagnostics.sandbox_display import AttackDisplay

    with AttackDisplay(on_stderr=as_json).show() as display:
        description, reports = attack_profile(
            profile, backend=backend, only=only, on_start=display.start, on_report=display.report
        )
    document = attack_document(description, reports)
    if as_json:
        emit_json(document)
    else:
        counts = f"{document['num_attacks']} attacks, {document['num_stopped']} stopped, {document['num_succeeded']} succeeded"
        typer.echo(f"\n{counts}")
    if document["num_succeeded"]:
        raise typer.Exit(1)


@commands.command()
def status(as_json: JsonOption = False) -> None:
    """Backends, daemon, image, limits in force, sandboxes and leftovers. Leaves nothing running."""
    from troupe.diagnostics.sandbox import status_document
    from troupe.diagnostics.tables import sandbox_status_table

    document: dict[str, Any] = status_document()
    emit(document, as_json=as_json, table=sandbox_status_table)
    if not as_json:
        typer.echo(f"\nnext: troupe sandbox {'attack' if document['auto'] else 'build'}")
