"""`troupe serve` and `troupe questions`."""

import threading
from pathlib import Path
from typing import Annotated

import typer

from components.machine.gc_tuning import gc_paused
from troupe.cli.runs import JsonOption, StoreOption, emit_json


def serve(
    run: Annotated[str, typer.Argument(metavar="RUN[@STEP]", help="Whose team answers; by default after all updates.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8100,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 for all of this machine's.")
    ] = "127.0.0.1",
    key: Annotated[
        str | None,
        typer.Option(envvar="TROUPE_SERVE_KEY", help="What clients send as their API key; default: a new one."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer programs that speak to OpenAI or Anthropic with a trained team, until interrupted."""
    with gc_paused():
        from troupe.teams.run_team import find_named_step, find_run, run_team
        from troupe.teams.serving import serve_team

    run_id, step = find_named_step(run, argument="RUN")
    team = run_team(find_run(run_id, store), step)
    with team, serve_team(team, host=host, port=port, key=key) as served:
        if as_json:
            emit_json({"name": served.name, "url": served.url, "key": served.key, "models": list(served.models)})
        else:
            typer.echo(f"{served.name} answers at {served.url} as {', '.join(served.models)}; end it with Ctrl-C")
            typer.echo(f"\nexport OPENAI_BASE_URL={served.url} OPENAI_API_KEY={served.key}")
            typer.echo(f"export ANTHROPIC_BASE_URL={served.url.removesuffix('/v1')} ANTHROPIC_API_KEY={served.key}")
        wait_for_interrupt()


def wait_for_interrupt() -> None:
    """Wait for the signal that ends the command."""
    threading.Event().wait()


def questions(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Whose evaluation it is; one agent answers, once.")],
    to: Annotated[Path, typer.Option(help="The file, as questions.jsonl.")],
    problems: Annotated[int, typer.Option(min=1, help="As many as `troupe evaluate --problems` plays.")] = 100,
    seed: Annotated[int, typer.Option(help="As of `troupe evaluate`: it chooses the problems and the draws.")] = 0,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write what an evaluation asks as JSON lines, for evaluation programs that ask a served team."""
    with gc_paused():
        from troupe.teams.questions import write_questions
        from troupe.teams.run_team import find_run

    lines = write_questions(find_run(run, store), to, num_problems=problems, seed=seed)
    if as_json:
        emit_json({"file": str(to), "num_questions": len(lines), "model": lines[0]["model"]})
        return
    typer.echo(f"{to}: {len(lines)} questions to {lines[0]['model']}")
    typer.echo(f"\nnext: troupe serve {run}   |   docs/models.md says how lm-eval and inspect ask them")
