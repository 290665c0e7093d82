"""Training, evaluating and playing from Python: what the commands do, with values instead of printed lines."""

import os
from collections.abc import Sequence

from rich.console import Console

from components.config import RunConfig
from flows.presets import preset_config
from troupe.runs.summary import TrainingReport
from troupe.teams.evaluation import EvaluationOrder, evaluate_anybody
from troupe.teams.reports import EvaluationReport
from troupe.teams.run_team import Team, run_team, stored_run
from troupe.training.in_process import run_training, stored_in

# Read when Prefect is imported, with the first run: what it says of each task goes to its own pages.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")


def load_config(name: str, overrides: Sequence[str] = ()) -> RunConfig:
    """The configuration of a preset, or of a file of one (`mine.yaml`), with `a.b=c` overrides as `--set` takes them.

    Presets are those of the `prefect.yaml` of the current folder, then Troupe's own. Raises ConfigurationError with the
    nearest name for one that is unknown.

    **Example**

    >>> config = load_config("tiny", ["num_steps=1", "rollout.group_size=8"])
    >>> config.num_steps, config.rollout.group_size, config.environment.name
    (1, 8, 'plan_path')
    """
    return preset_config(name, overrides)


def train(
    config: RunConfig, *, run_id: str | None = None, store: str | None = None, display: bool = False
) -> TrainingReport:
    """Train `config` under `run_id` (default: its preset's name) and say how it went. The same call again resumes.

    `store` is where the run lies, `file:///absolute/path` or `s3://bucket/prefix`; None is what `config` says. `display` shows
    the run on the terminal as `troupe train` does. It needs the services that `troupe up` starts, or those that
    PREFECT_API_URL and its like name. Raises ConfigurationError and other `TroupeError`s.

    **Example**

    >>> report = train(load_config("tiny"), run_id="first")  # doctest: +SKIP
    >>> [(each.step, each.sampling, each.success_rate) for each in report.evaluations]  # doctest: +SKIP
    [(0, 'sample', 0.05), (0, 'greedy', 0.075), (3, 'sample', 0.05), (3, 'greedy', 0.1)]
    """
    console = Console(quiet=not display)
    return run_training(stored_in(config, store, ()), config.preset if run_id is None else run_id, console=console)


def evaluate(
    who: str,
    suite: str | None = None,
    *,
    num_problems: int = 100,
    seed: int = 0,
    step: int | None = None,
    sampling: str = "greedy",
    overrides: Sequence[str] = (),
    store: str | None = None,
) -> EvaluationReport:
    """How often `who` succeeds on a suite: a run, a model folder or hub name, "expert", "random" or "noop".

    `suite` is an environment's or a preset's name, then /test (default), /train or /train_check; None is a run's own. `step`
    counts a run's updates, None means all that are finished. Raises ConfigurationError.

    **Example**

    >>> report = evaluate("expert", "plan_path", num_problems=5)
    >>> report.success_rate, report.n, report.suite
    (1.0, 5, 'plan_path/test')
    """
    order = EvaluationOrder(
        who=who,
        suite=suite,
        num_problems=num_problems,
        seed=seed,
        step=step,
        sampling=sampling,
        overrides=tuple(overrides),
        store_uri=store,
    )
    return evaluate_anybody(order, lambda done, total: None)


def load_team(run: str, *, step: int | None = None, store: str | None = None) -> Team:
    """The team of a run after `step` updates (None: the newest), its weights loaded and proved by their digest.

    Ask it for answers, or let it play a problem. It has engines of its own, whose memory `close` or the end of a `with` block
    gives back. Raises ConfigurationError for a run or a step that is not there.

    **Example**

    >>> team = load_team("plan-path")  # doctest: +SKIP
    >>> episode = team.play(0)  # doctest: +SKIP
    >>> [(node.group.agent, node.candidates[0].text) for node in episode.nodes], episode.success  # doctest: +SKIP
    ([('tool_agent', 'R,R,D'), ('plan_agent', 'R,R,D')], True)
    """
    return run_team(stored_run(run, store), step)
