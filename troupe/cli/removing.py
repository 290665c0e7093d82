"""`troupe rm`."""

import sys
from typing import Annotated

import typer

from components.errors import ConfigurationError
from troupe.cli.reading import JsonOption, StoreOption, emit_json


def rm(
    run: Annotated[str, typer.Argument(help="A run's name; `troupe runs` lists them.")],
    lineage: Annotated[
        int | None,
        typer.Option(min=1, help="Only the run's newest restart, by its number: the run is what it was before."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Remove the run and its models from MLflow, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Even if a session seems to be active.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a run, or its newest restart, and everything only it refers to. Repeat to finish an interrupted removal."""
    from components.identity import checked_run_id
    from troupe.runs.removal import planned, removed, told
    from troupe.runs.stores import opened_store

    if mlflow and lineage is not None:
        raise ConfigurationError("--mlflow: MLflow shows a run as a whole; leave out --lineage or --mlflow")
    opened = opened_store(store)
    removal = planned(opened, checked_run_id(run), lineage=lineage, from_mlflow=mlflow, force=force)
    what = f"run {run}" if lineage is None else f"restart {lineage} of run {run}"
    if not yes:
        if not sys.stdin.isatty() or as_json:
            raise ConfigurationError(f"{what} would be removed for good; add --yes to do so")
        num_bytes = sum(found.num_bytes for found in (*removal.records, *removal.unshared))
        typer.confirm(f"Remove {what} from {opened.uri} for good ({num_bytes / 2**20:.1f} MiB)?", abort=True)
    document = removed(opened, removal, lineage=lineage, from_mlflow=mlflow)
    if as_json:
        emit_json(document)
    else:
        typer.echo(told(document, what=what))
