"""The success rate of a trained team, or of an untrained model, on held-out problems."""

from collections.abc import Mapping
from typing import Any

from components.config import RunConfig
from components.errors import ConfigurationError
from components.evaluation.held_out import Sampling
from components.evaluation.suites import suite as split_of_suite
from components.session.scenario import scenario_of
from flows.api.fields import AnyPath, Count, check_arguments
from flows.api.petting.agents import open_team
from flows.api.petting.configs import OVERRIDES, check_keys, merge_config, overrides_for, without
from flows.suites import check_overrides, overridden, team_overrides

_NUMBERS = ("success_rate", "n", "num_successes", "interval", "mean_reward", "keep_rate", "repair_rate")
_PLAYED = ("env_name", "env_options", "max_turns", "alpha", OVERRIDES)
"""Keys that change what is played."""
_ANSWERED = {
    "max_response_length": "agents.*.max_new_tokens",
    "temperature": "agents.*.temperature",
    **{key: f"generation.{key}" for key in ("engine", "device", "dtype")},
}
"""Keys that change how the team answers -> what each sets."""


@check_arguments
def evaluate(
    model_path: AnyPath,
    config_name: str | dict[str, Any] | None = None,
    num_episodes: Count = 200,
    *,
    config: dict[str, Any] | None = None,
    sampling: Sampling = "greedy",
    suite: str = "test",
    seed: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """Play `num_episodes` different problems of a suite: `success_rate`, `n`, its 95% `interval`, `mean_reward` and others.

    `model_path` is a checkpoint in the folder of a training: `checkpoints/model_STEP`, `checkpoints/RUN` or both,
    `checkpoints/RUN/model_STEP`; or a folder of an export, or a model on the hub. `config_name` (or `config`) is what is
    played; None, or the bare name under which the run was trained: what it was trained on. `sampling`: greedy or sample.

    `settings` on top are env_name, env_options, max_turns, alpha, overrides, max_response_length, temperature (of sample),
    engine, device and dtype; a key that changes no evaluation is refused. What a run's team has played before, in training or
    here, is read and not played again.

    Raises ConfigurationError.

    **Example**

    >>> results = evaluate("checkpoints/model_2000", "code_single_policy", num_episodes=200)  # doctest: +SKIP
    >>> results["success_rate"], results["n"], results["interval"]  # doctest: +SKIP
    (0.615, 200, (0.546, 0.68))
    """
    split_of_suite(suite)
    _check_effects(settings, sampling)
    changes = without(settings, *_ANSWERED)
    is_named = config_name is not None or config is not None or bool(changes)
    stated = merge_config(config_name, config, changes) if is_named else None
    from flows.evaluate import contender_report, keep_results  # imports Prefect, which takes seconds

    def adjust(playing: RunConfig) -> RunConfig:
        values, lines = playing.model_dump(mode="json"), team_overrides(settings.get(OVERRIDES) or ())
        for key in settings.keys() & _ANSWERED.keys():
            lines += overrides_for(key, (_ANSWERED[key],), settings[key], values)
        return overridden(playing, lines)

    with open_team(model_path, stated, adjust) as (opened_subject, played):
        asked = {"split": suite, "num_problems": num_episodes, "seed": seed}
        report = contender_report(opened_subject, scenario_of(played).suite.model_copy(update=asked), sampling, 1, seed)
        keep_results(opened_subject.session)
    named = {"agent": report.agent, "config_name": played.preset, "suite": report.suite, "sampling": sampling}
    return {name: getattr(report, name) for name in _NUMBERS} | named


def _check_effects(settings: Mapping[str, Any], sampling: Sampling) -> None:
    """Raise ConfigurationError for a key that changes no evaluation."""
    for key, value in check_keys(settings).items():
        if key == "temperature" and sampling == "greedy":
            raise ConfigurationError(f"temperature {value!r}: greedy answers have none; add sampling='sample'")
        if key not in (*_PLAYED, *_ANSWERED):
            effective = ", ".join((*_PLAYED, *_ANSWERED))
            raise ConfigurationError(f"{key} {value!r}: changes no evaluation; leave it out; these do: {effective}")
    check_overrides(settings.get(OVERRIDES) or (), plays_here=True)
