"""`troupe try`."""

from typing import Annotated

import typer

from components.machine.gc_tuning import gc_paused
from troupe.cli.runs import JsonOption, emit_json, progress_bar
from troupe.cli.training import SetOption, preset_names


def try_policies(
    preset: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE.yaml",
            help="A preset of ./prefect.yaml or of Troupe, or a configuration file.",
            autocompletion=preset_names,
        ),
    ],
    problems: Annotated[int | None, typer.Option(min=1, help="Training problems to play; default: at most 16.")] = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the policies answer a few training problems before any training. Shows prompts, answers and verdicts."""
    from flows.presets import preset_config

    config = preset_config(preset, overrides or [])
    with gc_paused():
        from troupe.teams.trying import describe_trial, try_policies

    with progress_bar(preset, doing="trying") as progress:
        trial = try_policies(config, num_problems=problems, begin=_announce, progress=progress)
    if as_json:
        emit_json(trial.model_dump(mode="json"))
    else:
        typer.echo("\n".join(describe_trial(trial, preset)))


def _announce(num_problems: int) -> None:
    """Say what takes a minute, once it begins."""
    typer.echo(f"the policies before training are made, then answer {num_problems} training problems", err=True)
