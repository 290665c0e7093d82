"""`troupe view` and `troupe rollouts`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from components.errors import ConfigurationError
from troupe.cli.runs import JsonOption, RunArgument, StoreOption, emit_json, progress_bar

if TYPE_CHECKING:
    from components.artifacts.base import ArtifactStore
    from components.runs.history import Progress
    from troupe.viewing.view import PlayedBy

StepOption = Annotated[
    int | None, typer.Option(min=0, help="Its rollouts were played after so many updates; default: the newest step.")
]


def view(
    run: RunArgument,
    step: StepOption = None,
    problem: Annotated[str | None, typer.Option(help="Only this problem, by its id.")] = None,
    against: Annotated[
        int | None, typer.Option(min=0, help="Another step, whose play of the same problems stands beside.")
    ] = None,
    play: Annotated[
        bool, typer.Option("--play", help="Play the step's problems now with the weights of --against; stores nothing.")
    ] = False,
    to: Annotated[Path | None, typer.Option(help="The page's file; default: RUN-step-N.html here.")] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Of a run of train-population: only its graph of who did what to whom.")
    ] = False,
    gif: Annotated[
        Path | None,
        typer.Option(help="A run of train-hybrid: also an episode on the cartridge, kept or played now, in this file."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a page of a step's rollouts: what each agent saw and wrote, rewards, advantages, the branch taken. Of a run of
    train-hybrid: its course, who acted, patterns, visited tiles."""
    from troupe.runs.stores import open_named_store
    from troupe.viewing.view import is_of_games, view_document, write_page

    if play and against is None:
        raise ConfigurationError("--play: name the step whose weights are to play, as --against 40")
    opened = open_named_store(store, run)
    if graph:
        if as_json:
            raise ConfigurationError("--graph --json: the graph is a picture; leave --json out")
        _write_graph(opened, run, to)
        return
    with progress_bar(run) as progress:
        played = _make_played_by(store, problem, progress) if play else None
        document = view_document(opened, run, step=step, problem=problem, against=against, play=played)
    if gif is not None:
        _write_gif(run, gif, step, store)
    if as_json:
        emit_json(document)
        return
    of_games = is_of_games(document)
    at = document["step"] if of_games else document["main"]["step"]
    file = to or Path(f"{document['run_id']}-step-{at}.html")
    write_page(document, file)
    if of_games:
        for note in document["notes"]:
            typer.echo(f"warning: {note}", err=True)
        typer.echo(f"{file.resolve().as_uri()}: games of step {at}; open it in a browser")
        return
    for side in (document["main"], document["against"]):
        for note in side["notes"] if side else ():
            typer.echo(f"warning: step {side['step']}: {note}", err=True)
    count = len(document["main"]["episodes"])
    typer.echo(f"{file.resolve().as_uri()}: {count} episode{'' if count == 1 else 's'}; open it in a browser")
    _write_graph(opened, document["run_id"], None, beside=file)


def _write_graph(opened: "ArtifactStore", run: str, to: Path | None, *, beside: Path | None = None) -> None:
    """Write a run's graph to `to`, or under a name of its own `beside` another page; there only if one was drawn."""
    from components.methods.population.interactions import PICTURE
    from troupe.viewing.graph import newest_graph, no_graph, write_graph

    picture = newest_graph(opened, run)
    if picture is None:
        if beside is None:
            raise no_graph(opened, run)
        return
    file = to or (beside or Path(run)).with_name(f"{run}-{PICTURE}")
    write_graph(picture, file)
    typer.echo(f"{file.resolve().as_uri()}: who did what to whom")


def _write_gif(run: str, file: Path, step: int | None, store: str | None) -> None:
    from troupe.viewing.episode_gif import write_episode

    with progress_bar(run, doing="playing"):
        written = write_episode(run, file, step=step, store_uri=store)
    typer.echo(f"{file.resolve().as_uri()}: {written}", err=True)


def _make_played_by(store: str | None, problem: str | None, progress: "Progress") -> "PlayedBy":
    from troupe.viewing.played import play_recorded

    return partial(play_recorded, store_uri=store, problem=problem, progress=progress)


def rollouts(
    run: RunArgument,
    to: Annotated[Path, typer.Option(help="The table's file, as rollouts.parquet.")],
    step: StepOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a step's rollouts as a table, one row per answer, that pandas and datasets open."""
    from troupe.runs.stores import open_named_store
    from troupe.viewing.table import write_rollouts

    if to.suffix != ".parquet":
        raise ConfigurationError(f"--to {to}: the table is a Parquet file; name it {to.with_suffix('.parquet')}")
    with progress_bar(run):
        report = write_rollouts(open_named_store(store, run), run, to, step=step)
    for note in report["notes"]:
        typer.echo(f"warning: {note}", err=True)
    if as_json:
        emit_json(report)
        return
    typer.echo(f"{to}: {report['num_rows']} answers of step {report['step']}")
    typer.echo(f'\nnext: python -c "import pandas; print(pandas.read_parquet({str(to)!r}))"')
