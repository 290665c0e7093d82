"""`troupe evaluate`: how good a run, a model or a scripted team is on a suite."""

import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from components.config import RunConfig, parse_config
from components.environments.base import EnvironmentFamily, RandomPlayer, demonstrator
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.answered_play import Answer, Ended, play_answers
from components.evaluation.held_out import EvalPlan, Sampling, evaluate
from components.evaluation.suites import suite_problems
from components.identity import seed_for
from components.schema import PolicyVersion, Problem
from components.scratch import scratch_folder
from flows.presets import with_overrides
from tasks.own_sources import with_environment_source
from tasks.run import Run
from tasks.scenario import Scenario, scenario_of
from tasks.session import Session
from tasks.toolbox import Toolbox
from troupe.teams.reports import EvaluationReport, counted
from troupe.teams.run_team import Team, checked_sampling, run_team, stored_run, team_order
from troupe.teams.suite_choice import suite_config

SCRIPTED = ("expert", "random", "noop")
Progress = Callable[[int, int], None]
_PROBLEMS_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOrder:
    """What the command was asked for, unchecked. `suite` None is a run's own held-out suite."""

    who: str
    suite: str | None
    num_problems: int
    seed: int
    step: int | None
    sampling: str
    overrides: tuple[str, ...]
    store_uri: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOrder:
    """What is played: `config` names the environment and its tools, `name` the stretch of problems."""

    config: RunConfig
    name: str
    num_problems: int
    seed: int

    @property
    def scenario(self) -> Scenario:
        return scenario_of(self.config)

    @property
    def title(self) -> str:
        return f"{self.config.environment.name}/{self.name}"

    def problems(self) -> tuple[Problem, ...]:
        """Different problems, the same for everybody evaluated under this seed."""
        scenario = self.scenario
        return suite_problems(
            self.name, scenario.family, scenario.options, num_problems=self.num_problems, seed=self.seed
        )


def evaluate_anybody(order: EvaluationOrder, progress: Progress) -> EvaluationReport:
    """The report of whoever `order.who` names. Raises ConfigurationError naming the argument and the remedy."""
    sampling = checked_sampling(order.sampling)
    is_run = order.who not in SCRIPTED and not _is_model(order.who)
    if order.step is not None and not is_run:
        raise ConfigurationError(f"--step {order.step}: only a run has steps, and {order.who!r} is none; leave it out")
    if order.suite is None and not is_run:
        raise ConfigurationError(f"--suite: name an environment or a preset for {order.who!r}, as --suite plan_path")
    if is_run:
        return _run_report(order, sampling, progress)
    config, name = suite_config(str(order.suite), order.overrides)
    config = with_environment_source(config)
    ordered = SuiteOrder(config=config, name=name, num_problems=order.num_problems, seed=order.seed)
    if order.who in SCRIPTED:
        return evaluate_scripted(ordered, order.who, progress)
    return evaluate_model(ordered, order.who, sampling, progress)


def _run_report(order: EvaluationOrder, sampling: Sampling, progress: Progress) -> EvaluationReport:
    run = stored_run(order.who, order.store_uri)
    config, name = run.config, "test"
    if order.suite is not None:
        config, name = suite_config(order.suite, order.overrides)
    elif order.overrides:
        config = parse_config(with_overrides(config.model_dump(mode="json"), order.overrides))
    config = with_environment_source(config)
    ordered = SuiteOrder(config=config, name=name, num_problems=order.num_problems, seed=order.seed)
    with run_team(run, order.step) as team:
        return _played(ordered, team, sampling, progress)


def _is_model(who: str) -> bool:
    """Whether `who` names weights: run names hold no slash."""
    return who == "smollm2-135m" or "/" in who or Path(who).is_dir()


def evaluate_scripted(order: SuiteOrder, agent: str, progress: Progress) -> EvaluationReport:
    """An expert, random or idle team on a suite."""
    scenario, problems = order.scenario, order.problems()
    family = scenario.family
    episodes: list[Ended | None] = []
    with closing(Toolbox(scenario)) as toolbox:
        tools = toolbox.tools()
        for first in range(0, len(problems), _PROBLEMS_AT_ONCE):
            block = problems[first : first + _PROBLEMS_AT_ONCE]
            episodes += play_answers(
                block,
                [scripted_answer(agent, family, seed_for(order.seed, "play", first + i)) for i in range(len(block))],
                family=family,
                tools=tools,
                rubric=scenario.rubric,
                turn_order=turn_order_of(family, order.config.environment.turn_order),
                max_turns=order.config.environment.max_turns,
            )
            progress(len(episodes), len(problems))
    played = counted([ended for ended in episodes if ended is not None])
    return EvaluationReport(suite=order.title, agent=agent, sampling="scripted", **played)


def scripted_answer(agent: str, environment: EnvironmentFamily, seed: int) -> Answer:
    """How the expert, the random or the idle team answers."""
    rng = Random(seed)

    if agent == "noop":
        return lambda env, node: ""
    if agent == "random" and isinstance(environment, RandomPlayer):
        player = environment
        return lambda env, node: player.random_action(env, node.agent, rng)
    expert = demonstrator(environment)
    return lambda env, node: expert.expert_action(env, node.agent)


def evaluate_model(order: SuiteOrder, base: str, sampling: Sampling, progress: Progress) -> EvaluationReport:
    """One model in every role, as it is: a model folder, a hub name, or "smollm2-135m"."""
    from components.training.bases import check_base

    policies = {"team": {"base": base, "prompt_format": "chat"}}
    agents = {role: {"policy": "team"} for role in order.scenario.family.roles}
    values = order.config.model_dump(mode="json") | {"policies": policies, "agents": agents}
    config = parse_config(values)
    check_base("team", config.policies["team"])
    from components.training.checkpoint import read_manifest, write_initial_checkpoint
    from components.training.models import prepare_model_folder

    with tempfile.TemporaryDirectory(prefix="evaluate-", dir=scratch_folder()) as name:
        folder, output = Path(name) / "model", Path(name) / "checkpoint"
        if prepare_model_folder(config.policies["team"], alphabet="", seed=0, into=folder):
            raise ConfigurationError(f"{base!r}: a tiny model knows nothing before a run has trained it; name a run")
        write_initial_checkpoint(folder, output, "team")
        version = PolicyVersion(policy="team", step=0, weights_digest=read_manifest(output).weights_digest)
        with Session(Run(run_id="evaluation", config=config)) as session:
            session.engines.of("team").load(folder, version)
            team = Team(name=base, session=session, router=session.router({"team": version}))
            return _played(order, team, sampling, progress)


def _played(order: SuiteOrder, team: Team, sampling: Sampling, progress: Progress) -> EvaluationReport:
    """`team` on the order's problems."""
    scenario = order.scenario
    plan = EvalPlan(
        suite=order.name,
        step=0,
        sampling=sampling,
        problems=order.problems(),
        problems_per_block=_PROBLEMS_AT_ONCE,
        turn_order=team_order(team.config, order.config, named=f"--suite {order.title}", team=team.name),
        max_turns=order.config.environment.max_turns,
        seed=order.seed,
    )
    with closing(Toolbox(scenario)) as toolbox:
        report = evaluate(
            plan,
            family=scenario.family,
            router=team.router,
            rubric=scenario.rubric,
            tools=toolbox.tools(),
            progress=progress,
        )
    numbers = {name: getattr(report, name) for name in ("success_rate", "n", "interval", "mean_reward")}
    return EvaluationReport(suite=order.title, agent=team.name, sampling=sampling, **numbers)
