"""The success rate of a trained team, or of an untrained model, on held-out problems."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.evaluation.suites import Suite
from components.evaluation.suites import suite as split_of_suite
from flows.api.petting.model_paths import checked_sampling, named_team, opened_team
from flows.api.petting.run_configs import stated_config

_NUMBERS = ("success_rate", "n", "num_successes", "interval", "mean_reward", "keep_rate", "repair_rate")


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
    greedy or sample. What a run's team has played before, in training or here, is read and not played again.

    Raises ConfigurationError.

    **Example**

    >>> results = evaluate("checkpoints/model_2000", "code_single_policy", num_episodes=200)  # doctest: +SKIP
    >>> results["success_rate"], results["n"], results["interval"]  # doctest: +SKIP
    (0.615, 200, (0.546, 0.68))
    """
    if num_episodes < 1:
        raise ConfigurationError(f"num_episodes {num_episodes}: ask for at least 1")
    draws = checked_sampling(sampling)
    split_of_suite(suite)
    is_named = config_name is not None or config is not None or bool(settings)
    named = named_team(model_path, stated_config(config_name, config, settings) if is_named else None)
    wanted = Suite.model_validate(
        {
            "environment": named.played.environment,
            "split": suite,
            "num_problems": num_episodes,
            "seed": seed,
            "problems_per_block": named.played.evaluation.problems_per_block,
        }
    )
    from flows.evaluate import contender_report, keep_results  # imports Prefect, which takes seconds

    with opened_team(named) as contender:
        report = contender_report(contender, wanted, draws, 1, seed)
        keep_results(contender.session)
    told = {name: getattr(report, name) for name in _NUMBERS}
    config_played = named.played.preset
    return {**told, "agent": report.agent, "config_name": config_played, "suite": report.suite, "sampling": sampling}
