"""`troupe presets`, `troupe init`, `troupe train` and `troupe resume`."""

from typing import Annotated

import typer

from components.errors import ConfigurationError
from troupe.cli.runs import JsonOption, RunArgument, StoreOption, emit

SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="a.b=c", help="Override a value; repeatable.")]


def preset_names(incomplete: str) -> list[str]:
    """The presets that begin so, for a shell's completion."""
    from flows.presets import all_preset_values

    try:
        return [name for name in all_preset_values() if name.startswith(incomplete)]
    except ConfigurationError:
        return []  # `troupe train` tells what is wrong with ./prefect.yaml


def presets(as_json: JsonOption = False) -> None:
    """What can be trained: the presets of ./prefect.yaml and of Troupe."""
    from troupe.training.preset_list import preset_rows, presets_table

    rows = preset_rows()
    emit(rows, as_json=as_json, table=presets_table)
    if not as_json:
        typer.echo(f"\nnext: troupe train {rows[0]['name']}, or troupe play {rows[0]['name']} to try it yourself")


def init(
    name: Annotated[str, typer.Argument(help="The name of the new folder, and of its module, preset and run.")],
    has_agent: Annotated[bool, typer.Option("--agent", help="An agent program, its problems and its judge.")] = False,
) -> None:
    """Write a project of your own: an environment, its preset, the test of its contract; or an agent to train as it is."""
    from pathlib import Path

    from troupe.projects.project import write_project

    folder = write_project(name, Path.cwd(), has_agent=has_agent)
    typer.echo("\n".join(f"{name}/{path.name}" for path in sorted(folder.iterdir())))
    typer.echo(f"\nnext: cd {name} && {'' if has_agent else 'make test && troupe up && '}troupe train {name}")


def train(
    preset: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|FILE.yaml",
            help="A preset of ./prefect.yaml or of Troupe, or a configuration file.",
            autocompletion=preset_names,
        ),
    ],
    run_id: Annotated[str | None, typer.Option("--run-id", help="The run's name; default: the preset's.")] = None,
    overrides: SetOption = None,
    steps: Annotated[int | None, typer.Option(min=0, help="Training iterations.")] = None,
    store: StoreOption = None,
) -> None:
    """Train a preset in this process. The same command again resumes."""
    from flows.presets import preset_config

    config = preset_config(preset, overrides or [], num_steps=steps)
    from troupe.training.in_process import place_store, run_training

    run_training(place_store(config, store, overrides or []), config.preset if run_id is None else run_id)


def resume(
    run: RunArgument,
    from_stage: Annotated[str | None, typer.Option(help="Restart at this stage of --step.")] = None,
    step: Annotated[int | None, typer.Option(min=0, help="The step to restart at.")] = None,
    overrides: SetOption = None,
    steps: Annotated[int | None, typer.Option(min=0, help="The total number of iterations to reach.")] = None,
    store: StoreOption = None,
) -> None:
    """Continue a run under its own configuration, or restart it from a stage of a step.

    A restart deletes nothing: earlier results stay readable. --set is for restarts only, because finished steps keep the
    configuration they ran with.
    """
    if (from_stage is None) != (step is None):
        raise ConfigurationError("--from-stage and --step go together: --from-stage STAGE --step 7")
    if overrides and from_stage is None:
        raise ConfigurationError(
            "--set changes a run's configuration, which needs a restart: add --from-stage and --step"
        )
    from troupe.training.in_process import run_resume

    run_resume(run, store_uri=store, from_stage=from_stage, step=step, overrides=overrides or [], num_steps=steps)
