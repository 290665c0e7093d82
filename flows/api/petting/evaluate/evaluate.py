"""The success rate of a trained team, or of an untrained model, on held-out problems."""

from collections.abc import Sequence
from typing import Any

from components.evaluation.held_out import Sampling
from components.evaluation.suites import suite as split_of_suite
from components.session.scenario import scenario_of
from flows.api.fields import AnyPath, Count, check_arguments
from flows.api.petting.agents import open_team
from flows.api.petting.configs import merge_config
from flows.suites import check_overrides

_NUMBERS = ("success_rate", "n", "num_successes", "interval", "mean_reward", "keep_rate", "repair_rate")


@check_arguments
def evaluate(
    model_path: AnyPath,
    config_name: str | dict[str, Any] | None = None,
    num_episodes: Count = 200,
    *,
    sampling: Sampling = "greedy",
    suite: str = "test",
    seed: int = 0,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Play `num_episodes` different problems of a suite: `success_rate`, `n`, its 95% `interval`, `mean_reward` and others.

    `model_path` is a checkpoint in the folder of a training: `checkpoints/model_STEP`, `checkpoints/RUN` or both,
    `checkpoints/RUN/model_STEP`; or a folder of an export, or a model on the hub. `config_name`, a name or a dict, is what is
    played; None, or the bare name under which the run was trained: what it was trained on. `sampling`: greedy or sample.

    `overrides` are those of `troupe evaluate --set`, as `agents.coder.max_new_tokens=64`: they change what is played, and how
    the team answers. What a run's team has played before, in training or here, is read and not played again.

    Raises ConfigurationError.
    """
    split_of_suite(suite)
    check_overrides(overrides, plays_here=True)
    stated = None if config_name is None else merge_config(config_name, {})
    from flows.evaluate import contender_report, keep_results  # imports Prefect, which takes seconds

    with open_team(model_path, stated, overrides) as (opened_subject, played):
        asked = {"split": suite, "num_problems": num_episodes, "seed": seed}
        report = contender_report(opened_subject, scenario_of(played).suite.model_copy(update=asked), sampling, 1, seed)
        keep_results(opened_subject.session)
    named = {"agent": report.agent, "config_name": played.preset, "suite": report.suite, "sampling": sampling}
    return {name: getattr(report, name) for name in _NUMBERS} | named
