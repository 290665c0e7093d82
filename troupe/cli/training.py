"""`troupe train` and `troupe resume`."""

from typing import Annotated

import typer

from components.errors import ConfigurationError
from troupe.cli.reading import StoreOption

RunOption = Annotated[str | None, typer.Option("--run-id", help="The run's name; default: the preset's.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="a.b=c", help="Override a value; repeatable.")]


def add_commands(app: typer.Typer) -> None:
    """Register this file's commands."""
    app.command()(train)
    app.command()(resume)


def train(
    preset: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE.yaml", help="A preset of the prefect.yaml here or of Troupe's own, or a file of one."
        ),
    ],
    run_id: RunOption = None,
    overrides: SetOption = None,
    steps: Annotated[int | None, typer.Option(min=0, help="Training iterations.")] = None,
    store: StoreOption = None,
) -> None:
    """Train a preset in this process. The same command again resumes."""
    from flows.presets import preset_config

    config = preset_config(preset, overrides or [], num_steps=steps)
    from troupe.training.in_process import run_training, stored_in

    run_training(stored_in(config, store, overrides or []), config.preset if run_id is None else run_id)


def resume(
    run: Annotated[str, typer.Argument(help="A run's name; `troupe runs` lists them.")],
    from_stage: Annotated[str | None, typer.Option(help="Restart at this stage of --step.")] = None,
    step: Annotated[int | None, typer.Option(min=0, help="The step to restart at.")] = None,
    overrides: SetOption = None,
    steps: Annotated[int | None, typer.Option(min=0, help="Go on until this many iterations.")] = None,
    store: StoreOption = None,
) -> None:
    """Go on with a run under its own configuration, or restart it from a stage of a step.

    A restart deletes nothing: what was computed before stays readable. --set is for restarts alone, since finished steps
    keep the configuration that they ran with.
    """
    if (from_stage is None) != (step is None):
        raise ConfigurationError("--from-stage and --step go together: --from-stage compute_rewards --step 7")
    if overrides and from_stage is None:
        raise ConfigurationError(
            "--set changes a run's configuration, which needs a restart: add --from-stage and --step"
        )
    from troupe.training.in_process import run_resume

    run_resume(run, store_uri=store, from_stage=from_stage, step=step, overrides=overrides or [], num_steps=steps)
