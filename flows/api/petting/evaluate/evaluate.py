"""The success rate of a trained team, or of an untrained model, on held-out problems."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from components.config import RunConfig
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation import held_out
from components.evaluation.suites import suite_problems
from components.rollout.rules import playing_order
from components.session.scenario import Scenario, scenario_of
from components.session.toolbox import Toolbox
from components.session.user_sources import with_environment_source
from components.turn_order import TurnOrder, agents_of
from flows.api.petting.run_configs import run_config, stated_config
from flows.api.petting.stored_teams import StoredTeam, checked_sampling, load_models, load_run, stored_run

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
    scenario = scenario_of(played)
    problems = suite_problems(suite, scenario.family, scenario.options, num_problems=num_episodes, seed=seed)
    with load_run(stored) if stored is not None else load_models(model_path, stated or {}) as team:
        plan = held_out.EvalPlan(
            suite=suite,
            step=0,
            sampling=draws,
            problems=problems,
            problems_per_block=_PROBLEMS_AT_ONCE,
            turn_order=team_order(team, scenario),
            max_turns=played.environment.max_turns,
            seed=seed,
        )
        with closing(Toolbox(scenario)) as toolbox:
            report = held_out.evaluate(
                plan, family=scenario.family, router=team.router, rubric=scenario.rubric, tools=toolbox.tools()
            )
    numbers = ("success_rate", "n", "num_successes", "interval", "mean_reward", "keep_rate", "repair_rate")
    told = {name: getattr(report, name) for name in numbers}
    suite_name = f"{played.environment.name}/{suite}"
    return {**told, "agent": team.name, "config_name": played.preset, "suite": suite_name, "sampling": sampling}


def played_config(stated: Mapping[str, Any] | None, own: RunConfig | None) -> RunConfig:
    """What is played: the stated configuration, read as the run's team learned to answer; or the run's `own`."""
    if own is not None and (stated is None or stated == {"config_name": own.preset}):
        return own
    played = with_environment_source(run_config(stated or {}))
    if own is None:
        return played
    environment = played.environment.model_copy(update={"answer_format": own.environment.answer_format})
    return played.model_copy(update={"environment": environment})


def team_order(team: StoredTeam, scenario: Scenario) -> TurnOrder:
    """The order in which the team acts in a turn. Raises ConfigurationError if it has nobody for a role."""
    roles = scenario.family.roles
    order = turn_order_of(scenario.family, scenario.config.environment.turn_order)
    playing = playing_order(team.config.rollout.mode, order, roles=roles)
    if missing := set(agents_of(playing, roles)) - set(team.config.agents):
        raise ConfigurationError(
            f"config_name {scenario.config.preset!r}: its roles {sorted(missing)} are played by nobody in {team.name}, whose "
            f"roles are {sorted(team.config.agents)}; name a configuration with these roles"
        )
    return playing
