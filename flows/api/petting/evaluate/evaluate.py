"""The success rate of a trained team, or of an untrained model, on held-out problems."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from components.config import RunConfig, StoreConfig
from components.errors import ConfigurationError
from components.evaluation.subjects import RunSubject
from components.evaluation.suites import Suite
from components.evaluation.suites import suite as split_of_suite
from components.scratch import scratch_folder
from components.session.contenders import Team, find_team, open_contender
from components.session.user_sources import with_environment_source
from flows.api.petting.run_configs import run_config, stated_config
from flows.api.petting.stored_teams import StoredRun, checked_sampling, model_team, stored_run

_PROBLEMS_AT_ONCE = 50


def evaluate(
    model_path: str | Path,
    config_name: str | Mapping[str, Any] | None = None,
    num_episodes: int = 200,
    *,
    config: Mapping[str, Any] | None = None,
    sampling: str = "greedy",
    suite: str = "test",
    seed: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """Play `num_episodes` different problems of a suite: `success_rate`, `n`, its 95% `interval`, `mean_reward` and others.

    `model_path` is a checkpoint in the folder of a training: `checkpoints/model_STEP`, `checkpoints/RUN` or both,
    `checkpoints/RUN/model_STEP`; or a folder of an export, or a model on the hub. `config_name` (or `config`, with `settings`
    on top) is what is played; None, or the bare name under which the run was trained: what it was trained on. `sampling`:
    greedy or sample.

    Raises ConfigurationError.

    **Example**

    >>> results = evaluate("checkpoints/model_2000", "code_single_policy", num_episodes=200)  # doctest: +SKIP
    >>> results["success_rate"], results["n"], results["interval"]  # doctest: +SKIP
    (0.615, 200, (0.546, 0.68))
    """
    if num_episodes < 1:
        raise ConfigurationError(f"num_episodes {num_episodes}: ask for at least 1")
    draws = checked_sampling(sampling)
    is_named = config_name is not None or config is not None or bool(settings)
    stated = stated_config(config_name, config, settings) if is_named else None
    stored = stored_run(model_path, run_id=str(stated["config_name"]) if stated else None)
    if stored is None and stated is None:
        raise ConfigurationError(f"config_name: name what the model {str(model_path)!r} plays, as code_single_policy")
    own = stored.run.config if stored is not None else None
    played = played_config(stated, own)
    split_of_suite(suite)
    team = _run_team(stored) if stored is not None else model_team(model_path, stated or {})
    from flows.evaluate import contender_report, keep_results  # imports Prefect, which takes seconds

    wanted = Suite.model_validate(
        {
            "environment": played.environment,
            "split": suite,
            "num_problems": num_episodes,
            "seed": seed,
            "problems_per_block": _PROBLEMS_AT_ONCE,
        }
    )
    with TemporaryDirectory(prefix="evaluation-", dir=scratch_folder()) as folder:
        kept = own.store if own is not None else StoreConfig(kind="local", root=folder)
        with open_contender(team, played, store=kept) as contender:
            report = contender_report(contender, wanted, draws, 1, seed)
            keep_results(contender.session)
    numbers = ("success_rate", "n", "num_successes", "interval", "mean_reward", "keep_rate", "repair_rate")
    told = {name: getattr(report, name) for name in numbers}
    return {**told, "agent": team.name, "config_name": played.preset, "suite": report.suite, "sampling": sampling}


def _run_team(stored: StoredRun) -> Team:
    subject = RunSubject(stored.run.run_id, stored.step)
    return find_team(subject, lambda _: (stored.run, stored.step), title=stored.run.run_id)


def played_config(stated: Mapping[str, Any] | None, own: RunConfig | None) -> RunConfig:
    """What is played: the stated configuration, read as the run's team learned to answer; or the run's `own`."""
    if own is not None and (stated is None or stated == {"config_name": own.preset}):
        return own
    played = with_environment_source(run_config(stated or {}))
    if own is None:
        return played
    environment = played.environment.model_copy(update={"answer_format": own.environment.answer_format})
    return played.model_copy(update={"environment": environment})
