"""`troupe play`."""

import json
import sys
from typing import Annotated

import typer

from flows.cli.reading import JsonOption


def add_commands(app: typer.Typer) -> None:
    """Register this file's commands."""
    app.command()(play)


def play(
    environment: Annotated[str, typer.Argument(help="plan_path, sokoban, sudoku, code, math, search, shop, ...")],
    agent: Annotated[str, typer.Option(help="human, expert, random or noop.")] = "human",
    episodes: Annotated[int, typer.Option(min=1, help="Problems to play.")] = 1,
    seed: Annotated[int, typer.Option(help="Which problems.")] = 0,
    options: Annotated[list[str] | None, typer.Option("--set", metavar="a=b", help="An option, as size=6.")] = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
    max_turns: Annotated[int | None, typer.Option(min=1, help="Turns after which an episode ends.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Play an environment in the terminal, or watch a simple agent play it."""
    from flows.play import play as play_episodes
    from flows.presets import with_overrides

    report = play_episodes(
        environment,
        agent=agent,
        episodes=episodes,
        seed=seed,
        options=with_overrides({}, options or []),
        split=split,
        max_turns=max_turns,
        stdin=sys.stdin,
        stdout=sys.stderr if as_json else sys.stdout,
    )
    if as_json:
        typer.echo(json.dumps(report.model_dump(mode="json"), indent=2))
