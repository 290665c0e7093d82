"""`troupe runs`, `show`, `verify` and `rm`; options and output of the commands on a store."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from components.errors import ConfigurationError
from components.text.escaping import printable_document

if TYPE_CHECKING:
    from components.runs.history import Progress

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="TROUPE_STORE",
        help="file:///… or s3://bucket/prefix; default: the local services', or without them the folder store in the home.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def whole_run(name: str) -> str:
    """`name`, unless it names a step, too. Raises ConfigurationError."""
    run, at, step = name.partition("@")
    if at:
        raise ConfigurationError(
            f"RUN {name!r}: write the run alone, as {run}: `troupe show {run}` shows all its steps, `troupe view {run} --step "
            f"{step or 'N'}` one; RUN@STEP, a team after so many updates, is for `evaluate`, `play`, `compare` and `export`"
        )
    return name


RunArgument = Annotated[str, typer.Argument(help="A run's name; `troupe runs` lists them.", callback=whole_run)]


def runs(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """All runs, newest first."""
    from components.runs.lineages import store_option
    from troupe.runs.documents import run_rows
    from troupe.runs.stores import list_unlisted_runs, open_named_store
    from troupe.runs.tables import runs_table

    with progress_bar("runs") as progress:
        opened = open_named_store(store)
        rows = run_rows(opened, progress)
    emit(rows, as_json=as_json, table=runs_table)
    if note := list_unlisted_runs(store):
        typer.echo(note, err=True)
    if rows and not as_json:
        typer.echo(f"\nnext: troupe show {rows[0]['run_id']}{store_option(opened)}")


def show(run: RunArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """One run: its steps, seconds by stage, attempts, checkpoints and evaluations."""
    from components.runs.lineages import store_option
    from troupe.runs.documents import run_document
    from troupe.runs.stores import open_named_store
    from troupe.runs.tables import run_table

    with progress_bar(run) as progress:
        opened = open_named_store(store, run)
        document = run_document(opened, run, progress)
    emit(document, as_json=as_json, table=run_table)
    if not as_json:
        typer.echo(f"\nnext: troupe view {run}{store_option(opened)}, or `troupe status` for MLflow and Prefect")


def verify(run: RunArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Read everything that a run refers to; name what is missing or damaged, and what heals it. Exit code 1 if something is."""
    from troupe.runs.stores import open_named_store
    from troupe.runs.verify import verify_document, verify_text

    with progress_bar(run, doing="verifying") as progress:
        document = verify_document(open_named_store(store, run), run, progress)
    emit(document, as_json=as_json, table=verify_text)
    if document["problems"]:
        raise typer.Exit(1)


def rm(
    run: RunArgument,
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
    from components.identity import check_run_id
    from components.runs.lineages import store_option
    from troupe.runs.removal import carry_out_removal, describe_removal, plan_removal
    from troupe.runs.stores import open_named_store

    if mlflow and lineage is not None:
        raise ConfigurationError("--mlflow: MLflow shows a run as a whole; leave out --lineage or --mlflow")
    opened = open_named_store(store, run)
    removal = plan_removal(opened, check_run_id(run), lineage=lineage, from_mlflow=mlflow, force=force)
    what = f"run {run}" if lineage is None else f"restart {lineage} of run {run}"
    if not yes:
        if not sys.stdin.isatty() or as_json:
            raise ConfigurationError(f"{what} would be removed for good; add --yes to do so")
        num_bytes = sum(found.num_bytes for found in (*removal.records, *removal.unshared))
        if not typer.confirm(f"Remove {what} from {opened.uri} for good ({num_bytes / 2**20:.1f} MiB)?"):
            typer.echo("nothing was removed", err=True)
            raise typer.Exit(1)
    document = carry_out_removal(opened, removal, lineage=lineage, from_mlflow=mlflow)
    if as_json:
        emit_json(document)
    else:
        typer.echo(describe_removal(document, what=what, option=store_option(opened)))


@contextmanager
def progress_bar(name: str, *, doing: str = "reading", is_hidden: bool = False) -> Iterator["Progress"]:
    """A transient bar on standard error; in a pipe a line every few seconds."""
    from rich.progress import Progress as Bar

    from troupe.consoles import Heartbeat, console

    stderr = console(stderr=True)
    state: tuple[float, float] | None = None

    def speak() -> None:
        told = "" if state is None else f": {state[0]:.0f} of {state[1]:.0f}"
        stderr.print(f"{doing} {name}{told}", highlight=False, markup=False, soft_wrap=True)

    def hear(done: float, total: float) -> None:
        nonlocal state
        state = done, total
        bar.update(task, completed=done, total=total)

    in_lines = not is_hidden and not stderr.is_terminal
    with (
        Bar(console=stderr, transient=True, disable=is_hidden or in_lines) as bar,
        Heartbeat(speak).beating() if in_lines else nullcontext(),
    ):
        task = bar.add_task(f"{doing} {name}", total=None)
        yield hear


def emit(document: Any, *, as_json: bool, table: Callable[[Any], RenderableType]) -> None:
    """Print a document as JSON, or as a table without markup: the text in a store may be somebody else's."""
    if as_json:
        emit_json(document)
        return
    from rich.text import Text

    from troupe.consoles import console

    shown = table(printable_document(document))
    console(markup=False, emoji=False, highlight=False).print(shown, soft_wrap=isinstance(shown, Text))


def emit_json(document: Any) -> None:
    """Print a document as JSON."""
    typer.echo(json.dumps(document, indent=2))
