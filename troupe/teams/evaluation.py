"""The success rate of a run, a model or a scripted team on a suite."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from components.config import RunConfig, parse_config
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation import held_out
from components.evaluation.suites import suite_problems
from components.runs.history import Progress
from components.runs.run import Run
from components.schema import PolicyVersion, Problem
from components.scratch import scratch_folder
from components.session.scenario import scenario_of
from components.session.session import Session
from components.session.toolbox import Toolbox
from components.session.user_sources import with_environment_source
from flows.presets import with_overrides
from troupe.teams.players import SCRIPTED, finished_episodes, scripted
from troupe.teams.reports import EvaluationReport, counted
from troupe.teams.run_team import Team, checked_sampling, run_team, stored_run, team_order
from troupe.teams.suites import read_as, suite_config

_PROBLEMS_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suite:
    """Different problems, chosen by `seed`, in the environment and with the tools of `config`."""

    config: RunConfig
    name: str
    problems: tuple[Problem, ...]
    seed: int

    @property
    def title(self) -> str:
        return f"{self.config.environment.name}/{self.name}"

    @property
    def problem_ids(self) -> tuple[str, ...]:
        return tuple(problem.problem_id for problem in self.problems)


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
    progress: Progress = lambda done, total: None,
) -> EvaluationReport:
    """How often `who` succeeds on a suite: a run, a model folder or hub name, "expert", "random" or "noop".

    `suite` is the name of an environment or preset, then /test (default), /train or /train_check; None is a run's own. `step`
    counts a run's updates; None means all finished ones. `progress(done, total)` is called as problems are finished. Raises
    ConfigurationError.

    **Example**

    >>> report = evaluate("expert", "plan_path", num_problems=5)
    >>> report.success_rate, report.n, report.suite
    (1.0, 5, 'plan_path/test')
    """
    draws = checked_sampling(sampling)
    is_model = who == "smollm2-135m" or "/" in who or Path(who).is_dir()  # a run's name has no slash
    is_run = who not in SCRIPTED and not is_model
    if step is not None and not is_run:
        raise ConfigurationError(f"--step {step}: only a run has steps, and {who!r} is none; leave it out")
    if suite is None and not is_run:
        raise ConfigurationError(f"--suite: name an environment, a preset or a file for {who!r}, as --suite plan_path")
    run = stored_run(who, store) if is_run else None
    if suite is not None:
        config, name = suite_config(suite, overrides)
        if run is not None and not any(each.startswith("environment.answers") for each in overrides):
            config = read_as(config, run.config)
    else:
        assert run is not None, who
        config, name = parse_config(with_overrides(run.config.model_dump(mode="json"), overrides)), "test"
    config = with_environment_source(config)
    family, options = scenario_of(config).family, scenario_of(config).options
    problems = suite_problems(name, family, options, num_problems=num_problems, seed=seed)
    played = _Suite(config=config, name=name, problems=problems, seed=seed)
    if who in SCRIPTED:
        return _evaluate_scripted(played, who, progress)
    with run_team(run, step) if run is not None else _model_team(who, played.config) as team:
        return _evaluate_team(played, team, draws, progress)


def _evaluate_scripted(suite: _Suite, agent: str, progress: Progress) -> EvaluationReport:
    scenario, settings = scenario_of(suite.config), suite.config.environment
    order = turn_order_of(scenario.family, settings.turn_order)
    finished = finished_episodes(
        scenario,
        scripted(agent, scenario.family, order, suite.seed),
        suite.problems,
        rubric=scenario.rubric,
        max_turns=settings.max_turns,
        progress=progress,
        problems_per_block=_PROBLEMS_AT_ONCE,
    )
    return EvaluationReport(
        suite=suite.title,
        agent=agent,
        sampling="scripted",
        problems_P=suite.problem_ids,
        solved_P=tuple(ended.success for ended in finished),
        **counted(finished),
    )


@contextmanager
def _model_team(base: str, played: RunConfig) -> Iterator[Team]:
    """One untrained model in every role: a model folder, a hub name, or "smollm2-135m"."""
    from components.models.base_checks import check_base

    policies = {"team": {"base": base, "prompt_format": "chat"}}
    agents = {role: {"policy": "team", "max_new_tokens": None} for role in scenario_of(played).family.roles}
    config = parse_config(played.model_dump(mode="json") | {"policies": policies, "agents": agents})
    check_base("team", config.policies["team"])
    from components.models.loading import prepare_model_folder
    from components.training.checkpoint import read_manifest, write_initial_checkpoint

    with tempfile.TemporaryDirectory(prefix="evaluate-", dir=scratch_folder()) as name:
        folder, output = Path(name) / "model", Path(name) / "checkpoint"
        if prepare_model_folder(config.policies["team"], alphabet="", seed=0, into=folder):
            raise ConfigurationError(f"{base!r}: a tiny model knows nothing before a run has trained it; name a run")
        write_initial_checkpoint(folder, output, "team")
        version = PolicyVersion(policy="team", step=0, weights_digest=read_manifest(output).weights_digest)
        with Session(Run(run_id="evaluation", config=config)) as session:
            session.engines.of("team").load(folder, version)
            yield Team(name=base, session=session, router=session.router({"team": version}))


def _evaluate_team(suite: _Suite, team: Team, sampling: held_out.Sampling, progress: Progress) -> EvaluationReport:
    scenario = scenario_of(suite.config)
    plan = held_out.EvalPlan(
        suite=suite.name,
        step=0,
        sampling=sampling,
        problems=suite.problems,
        problems_per_block=_PROBLEMS_AT_ONCE,
        turn_order=team_order(team.config, suite.config, named=f"--suite {suite.title}", team=team.name),
        max_turns=suite.config.environment.max_turns,
        seed=suite.seed,
    )
    with closing(Toolbox(scenario)) as toolbox:
        report = held_out.evaluate(
            plan,
            family=scenario.family,
            router=team.router,
            rubric=scenario.rubric,
            tools=toolbox.tools(),
            progress=progress,
        )
    names = ("success_rate", "n", "interval", "mean_reward", "temperatures", "keep_rate", "repair_rate")
    numbers = {name: getattr(report, name) for name in names}
    return EvaluationReport(
        suite=suite.title,
        agent=team.name,
        sampling=sampling,
        problems_P=suite.problem_ids,
        solved_P=report.solved_P or (),
        **numbers,
    )
