"""Training, evaluating and playing from Python: the commands as functions that return values."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from components.config import RunConfig
from components.errors import ConfigurationError
from components.schema import IterationReport
from flows.presets import preset_config
from troupe.consoles import console
from troupe.runs.summary import TrainingReport
from troupe.teams.evaluation import evaluate as evaluate
from troupe.teams.run_team import Team, find_run, run_team
from troupe.training.in_process import place_store, run_training

# Prefect reads this on import, at the first run: its messages about each task go to its own pages.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")


def load_config(name: str, overrides: Sequence[str] = ()) -> RunConfig:
    """The configuration of a preset or of a file (`mine.yaml`), with `a.b=c` overrides as for `--set`.

    Presets of the `prefect.yaml` in the current folder come before Troupe's own. Raises ConfigurationError with the nearest
    name for an unknown one.

    **Example**

    >>> config = load_config("tiny", ["num_steps=1", "rollout.group_size=8"])
    >>> config.num_steps, config.rollout.group_size, config.environment.name
    (1, 8, 'plan_path')
    """
    return preset_config(name, overrides)


def train(
    config: RunConfig | str | Path,
    *,
    run_id: str | None = None,
    store: str | None = None,
    display: bool | None = None,
    on_step: Callable[[IterationReport], None] | None = None,
) -> TrainingReport:
    """Train `config`, or the preset or file of this name, under `run_id` (default: its preset's name). The same call again
    resumes.

    `store` is where the run is stored, `file:///absolute/path` or `s3://bucket/prefix`; None takes it from `config`.
    `display` shows the run as `troupe train` does; None: in a notebook, and nowhere else. Uses the services of `troupe up`,
    or those named by PREFECT_API_URL and similar variables; without any it stores in the folder `store` of Troupe's home,
    with a Prefect server of its own and without MLflow. Raises ConfigurationError and other `TroupeError`s.

    `on_step` is called here with the report of each step that this call finishes, once the step is durable; the next step waits
    for it. Its exception ends the training and is raised; the step is kept, and the same call again continues after it.

    **Example**

    >>> report = train("tiny", run_id="first")  # doctest: +SKIP
    >>> [(each.step, each.sampling, each.success_rate) for each in report.evaluations]  # doctest: +SKIP
    [(0, 'sample', 0.05), (0, 'greedy', 0.075), (3, 'sample', 0.05), (3, 'greedy', 0.1)]
    """
    if isinstance(config, str | Path):
        config = load_config(str(config))
    elif not isinstance(config, RunConfig):
        raise ConfigurationError(
            f"config {type(config).__name__}: pass the name of a preset or file, or what load_config returns"
        )
    shown = console()
    shown.quiet = not (shown.is_jupyter if display is None else display)
    return run_training(
        place_store(config, store, ()),
        config.preset if run_id is None else run_id,
        console=shown,
        on_step=on_step,
    )


def load_team(run: str, *, step: int | None = None, store: str | None = None) -> Team:
    """The team of a run after `step` updates (None: the newest), its weights loaded and verified by digest.

    Ask it for answers, or let it play a problem. Its engines hold memory until `close` or the end of a `with` block. Raises
    ConfigurationError for an unknown run or step.

    **Example**

    >>> team = load_team("plan-path")  # doctest: +SKIP
    >>> episode = team.play(0)  # doctest: +SKIP
    >>> [(node.group.agent, node.candidates[0].text) for node in episode.path], episode.success  # doctest: +SKIP
    ([('tool_agent', 'R,R,D'), ('plan_agent', 'R,R,D')], True)
    """
    return run_team(find_run(run, store), step)
