"""`troupe view` and `troupe rollouts`."""

from pathlib import Path
from typing import Annotated

import typer

from troupe.cli.runs import JsonOption, StoreOption, emit_json, progress_bar

StepOption = Annotated[
    int | None, typer.Option(min=0, help="Its rollouts were played after so many updates; default: the newest step.")
]


def view(
    run: Annotated[str, typer.Argument(help="A run's name; `troupe runs` lists them.")],
    step: StepOption = None,
    problem: Annotated[str | None, typer.Option(help="Only this problem, by its id.")] = None,
    against: Annotated[
        int | None, typer.Option(min=0, help="Another step, whose play of the same problems stands beside.")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="The page's file; default: RUN-step-N.html here.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a page of a step's rollouts: what each agent saw and wrote, rewards, advantages, the branch taken."""
    from troupe.runs.stores import opened_store
    from troupe.viewing.view import view_document, write_page

    with progress_bar(run):
        document = view_document(opened_store(store), run, step=step, problem=problem, against=against)
    if as_json:
        emit_json(document)
        return
    file = to or Path(f"{document['run_id']}-step-{document['main']['step']}.html")
    write_page(document, file)
    for side in (document["main"], document["against"]):
        for note in side["notes"] if side else ():
            typer.echo(f"warning: step {side['step']}: {note}", err=True)
    typer.echo(f"{file.resolve().as_uri()}: {len(document['main']['episodes'])} episodes; open it in a browser")


def rollouts(
    run: Annotated[str, typer.Argument(help="A run's name; `troupe runs` lists them.")],
    to: Annotated[Path, typer.Option(help="The table's file, as rollouts.parquet.")],
    step: StepOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a step's rollouts as a table, one row per answer, that pandas and datasets open."""
    from troupe.runs.stores import opened_store
    from troupe.viewing.table import write_rollouts

    with progress_bar(run):
        report = write_rollouts(opened_store(store), run, to, step=step)
    for note in report["notes"]:
        typer.echo(f"warning: {note}", err=True)
    if as_json:
        emit_json(report)
        return
    typer.echo(f"{to}: {report['num_rows']} answers of step {report['step']}")
    typer.echo(f'\nnext: python -c "import pandas; print(pandas.read_parquet({str(to)!r}))"')
