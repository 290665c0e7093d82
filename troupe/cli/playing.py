"""`troupe play`."""

import json
import sys
from contextlib import nullcontext
from typing import Annotated

import typer

from troupe.cli.reading import JsonOption, StoreOption, reading_bar


def add_commands(app: typer.Typer) -> None:
    """Register this file's commands."""
    app.command()(play)


def play(
    environment: Annotated[
        str | None, typer.Argument(metavar="ENV", help="plan_path, code, ..., or a preset; default: that of the run.")
    ] = None,
    agent: Annotated[str, typer.Option(help="human, expert, random, noop, or a run: RUN or RUN@STEP.")] = "human",
    episodes: Annotated[int, typer.Option(min=1, help="Problems to play.")] = 1,
    seed: Annotated[int, typer.Option(help="Which problems, and which draws.")] = 0,
    options: Annotated[list[str] | None, typer.Option("--set", metavar="a=b", help="An option, as size=6.")] = None,
    split: Annotated[str | None, typer.Option(help="train or test; default: train, for a run test.")] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Turns after which an episode ends.")] = None,
    sampling: Annotated[str | None, typer.Option(help="How a run's team answers: greedy (default) or sample.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play an environment in the terminal, or watch a run's team or a simple agent play it."""
    from flows.presets import with_overrides
    from troupe.teams.play import PlayOrder
    from troupe.teams.play import play as play_episodes

    order = PlayOrder(
        environment=environment,
        agent=agent,
        episodes=episodes,
        seed=seed,
        options=with_overrides({}, options or []),
        split=split,
        max_turns=max_turns,
        sampling=sampling,
        store_uri=store,
    )
    with reading_bar(agent, doing="playing") if episodes > 1 and agent != "human" else nullcontext(_untold) as progress:
        report = play_episodes(order, stdin=sys.stdin, stdout=sys.stderr if as_json else sys.stdout, progress=progress)
    if as_json:
        typer.echo(json.dumps(report.model_dump(mode="json"), indent=2))


def _untold(done: int, total: int) -> None:
    """A progress that nobody sees."""
