"""`troupe play`."""

import sys
from typing import Annotated

import typer

from troupe.cli.reading import JsonOption, StoreOption, emit_json, progress_bar


def play(
    environment: Annotated[
        str | None, typer.Argument(metavar="ENV", help="plan_path, code, ..., or a preset; default: that of the run.")
    ] = None,
    agent: Annotated[str, typer.Option(help="human, expert, random, noop, or a run: RUN or RUN@STEP.")] = "human",
    episodes: Annotated[int, typer.Option(min=1, help="Problems to play.")] = 1,
    seed: Annotated[int, typer.Option(help="Chooses the problems and the random draws.")] = 0,
    options: Annotated[list[str] | None, typer.Option("--set", metavar="a=b", help="An option, as size=6.")] = None,
    split: Annotated[str | None, typer.Option(help="train or test; default: train, for a run test.")] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="Turns after which an episode ends.")] = None,
    sampling: Annotated[str | None, typer.Option(help="How a run's team answers: greedy (default) or sample.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play an environment in the terminal, or watch a run's team or a simple agent play it."""
    from flows.presets import with_overrides
    from troupe.teams.play import play as play_episodes

    is_shown = episodes == 1 or agent == "human"
    with progress_bar(agent, doing="playing", is_hidden=is_shown) as progress:
        report = play_episodes(
            environment,
            agent,
            episodes=episodes,
            seed=seed,
            options=with_overrides({}, options or []),
            split=split,
            max_turns=max_turns,
            sampling=sampling,
            store=store,
            stdin=sys.stdin,
            stdout=sys.stderr if as_json else sys.stdout,
            progress=progress,
        )
    if as_json:
        emit_json(report.model_dump(mode="json"))
